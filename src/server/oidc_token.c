#include "server/oidc_token.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/own.h"
#include "base/secret.h"

enum {
    KEYS_MAX = 100,
    RSA_BITS_MIN = 2048,
    RSA_BYTES_MAX = 1024,
    P256_BYTES = 32,
    ES256_BYTES = 2 * P256_BYTES,
    SKEW_MS = 60 * 1000,
};

struct token_head {
    struct str alg, kid;
};

static const struct json_field head_fields[] = {
    {"alg", JSON_TEXT, offsetof(struct token_head, alg), REQUIRED, .max = 64},
    {"kid", JSON_TEXT, offsetof(struct token_head, kid), OPTIONAL, .max = 1024},
    {0},
};

static const struct json_field claim_fields[] = {
    {"iss", JSON_TEXT, offsetof(struct id_claims, iss), REQUIRED, .max = 2048},
    {"sub", JSON_TEXT, offsetof(struct id_claims, sub), REQUIRED, .max = 1024},
    {"aud", JSON_RAW, offsetof(struct id_claims, aud), REQUIRED, .max = 8192},
    {"exp", JSON_NUMBER, offsetof(struct id_claims, exp), REQUIRED},
    {"azp", JSON_TEXT, offsetof(struct id_claims, azp), OPTIONAL, .max = 1024},
    {"nonce", JSON_TEXT, offsetof(struct id_claims, nonce), OPTIONAL, .max = 1024},
    {"email", JSON_TEXT, offsetof(struct id_claims, email), OPTIONAL, .max = 1024},
    {"email_verified", JSON_RAW, offsetof(struct id_claims, email_verified), OPTIONAL, .max = 16},
    {"name", JSON_TEXT, offsetof(struct id_claims, name), OPTIONAL, .max = 1024},
    {0},
};

struct web_key {
    struct str kty, kid, use, alg, n, e, crv, x, y;
};

struct key_set {
    struct json_list keys;
};

#define KEY_TEXT(field) {#field, JSON_TEXT, offsetof(struct web_key, field), OPTIONAL, .max = 4096}

static const struct json_field web_key_fields[] = {
    KEY_TEXT(kty), KEY_TEXT(kid), KEY_TEXT(use), KEY_TEXT(alg), KEY_TEXT(n),
    KEY_TEXT(e),   KEY_TEXT(crv), KEY_TEXT(x),   KEY_TEXT(y),   {0},
};

static const struct json_field key_set_fields[] = {
    {"keys", JSON_LIST, offsetof(struct key_set, keys), REQUIRED, .max = KEYS_MAX,
     .fields = web_key_fields, .size = sizeof(struct web_key)},
    {0},
};

static void free_key(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static void free_builder(OSSL_PARAM_BLD **builder)
{
    OSSL_PARAM_BLD_free(*builder);
}

static void free_params(OSSL_PARAM **params)
{
    OSSL_PARAM_free(*params);
}

static void free_key_context(EVP_PKEY_CTX **context)
{
    EVP_PKEY_CTX_free(*context);
}

static void free_digest(EVP_MD_CTX **context)
{
    EVP_MD_CTX_free(*context);
}

static void free_number(BIGNUM **number)
{
    BN_free(*number);
}

static EVP_PKEY *make_key(const char *type, OSSL_PARAM_BLD *builder)
{
    EVP_PKEY *key = NULL;
    AUTO(free_params) OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
    AUTO(free_key_context) EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (!params || !context || EVP_PKEY_fromdata_init(context) <= 0 ||
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) <= 0)
        return NULL;
    return key;
}

static BIGNUM *read_number(struct str text)
{
    unsigned char bytes[RSA_BYTES_MAX];
    size_t len = sizeof bytes;
    return base64url_decode(text, bytes, &len) && len > 0 ? BN_bin2bn(bytes, (int)len, NULL) : NULL;
}

static EVP_PKEY *read_rsa(const struct web_key *key)
{
    AUTO(free_number) BIGNUM *n = read_number(key->n);
    AUTO(free_number) BIGNUM *e = read_number(key->e);
    AUTO(free_builder) OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    if (!n || !e || BN_num_bits(n) < RSA_BITS_MIN || !builder ||
        !OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) ||
        !OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e))
        return NULL;
    return make_key("RSA", builder);
}

static bool read_coordinate(struct str text, unsigned char *bytes)
{
    size_t len = P256_BYTES;
    return base64url_decode(text, bytes, &len) && len == P256_BYTES;
}

static EVP_PKEY *read_p256(const struct web_key *key)
{
    unsigned char point[1 + ES256_BYTES] = {0x04};
    AUTO(free_builder) OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    if (!builder || !str_equal(key->crv, STR("P-256")) || !read_coordinate(key->x, point + 1) ||
        !read_coordinate(key->y, point + 1 + P256_BYTES) ||
        !OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) ||
        !OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point))
        return NULL;
    return make_key("EC", builder);
}

static bool check_digest(EVP_PKEY *key, struct str text, const unsigned char *signature, size_t len)
{
    AUTO(free_digest) EVP_MD_CTX *context = EVP_MD_CTX_new();
    return context && EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
           EVP_DigestVerify(context, signature, len, (const unsigned char *)text.ptr, text.len) ==
               1;
}

static bool check_rs256(const struct web_key *web_key, struct str text, struct str signature)
{
    AUTO(free_key) EVP_PKEY *key = read_rsa(web_key);
    return key && check_digest(key, text, (const unsigned char *)signature.ptr, signature.len);
}

/* JSON has the two numbers side by side, OpenSSL wants them in DER. */
static bool check_es256(const struct web_key *web_key, struct str text, struct str signature)
{
    const unsigned char *raw = (const unsigned char *)signature.ptr;
    AUTO(free_key) EVP_PKEY *key = read_p256(web_key);
    if (!key || signature.len != ES256_BYTES)
        return false;
    ECDSA_SIG *numbers = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, P256_BYTES, NULL),
           *s = BN_bin2bn(raw + P256_BYTES, P256_BYTES, NULL);
    if (!numbers || !r || !s || ECDSA_SIG_set0(numbers, r, s) != 1) {
        BN_free(r);
        BN_free(s);
        ECDSA_SIG_free(numbers);
        return false;
    }
    unsigned char *der = NULL;
    int len = i2d_ECDSA_SIG(numbers, &der);
    bool ok = len > 0 && check_digest(key, text, der, (size_t)len);
    OPENSSL_free(der);
    ECDSA_SIG_free(numbers);
    return ok;
}

static const struct {
    const char *alg, *kty;
    bool (*check)(const struct web_key *key, struct str text, struct str signature);
} algorithms[] = {
    {"RS256", "RSA", check_rs256},
    {"ES256", "EC",  check_es256},
};

static bool is_candidate(const struct web_key *key, const struct token_head *head, const char *kty)
{
    return str_equal(key->kty, str_of(kty)) && (!key->use.ptr || str_equal(key->use, STR("sig"))) &&
           (!key->alg.ptr || str_equal(key->alg, head->alg)) &&
           (!head->kid.ptr || str_equal(key->kid, head->kid));
}

static bool check_signature(const struct token_head *head, const struct key_set *set,
                            struct str text, struct str signature, struct error *err)
{
    const struct web_key *keys = set->keys.items;
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        if (!str_equal(head->alg, str_of(algorithms[i].alg)))
            continue;
        for (size_t k = 0; k < set->keys.n; k++)
            if (is_candidate(&keys[k], head, algorithms[i].kty) &&
                algorithms[i].check(&keys[k], text, signature))
                return true;
        return error_set(err, ERR_UNAUTHENTICATED, "the ID token is not signed by the provider");
    }
    return error_set(err, ERR_UNAUTHENTICATED, "the ID token is signed in a way not accepted here");
}

static bool decode_part(struct str text, struct arena *arena, struct str *bytes)
{
    char *room = arena_alloc(arena, text.len + 1);
    size_t len = text.len;
    if (!base64url_decode(text, room, &len))
        return false;
    *bytes = (struct str){room, len};
    return true;
}

bool id_token_read(struct str token, struct str key_set, struct arena *arena,
                   struct id_claims *claims, struct error *err)
{
    struct str rest = token, parts[3] = {{0}}, decoded[3] = {{0}};
    struct token_head head;
    struct key_set set;
    bool is_whole = token.len <= ID_TOKEN_MAX;
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        is_whole = is_whole && str_split(&rest, '.', &parts[i]) &&
                   decode_part(parts[i], arena, &decoded[i]);
    if (!is_whole || rest.ptr)
        return error_set(err, ERR_UNAUTHENTICATED, "the ID token is malformed");
    const struct str text = {token.ptr, parts[0].len + 1 + parts[1].len};
    return json_read_loose(decoded[0], head_fields, &head, sizeof head, arena, err) &&
           json_read_loose(key_set, key_set_fields, &set, sizeof set, arena, err) &&
           check_signature(&head, &set, text, decoded[2], err) &&
           json_read_loose(decoded[1], claim_fields, claims, sizeof *claims, arena, err);
}

/* aud is one text or a list of them; in a list of several the client must be the azp, too. */
static bool is_for(const struct id_claims *claims, struct str client_id, struct arena *arena)
{
    struct str one,
        raw = str_of(arena_printf(arena, "{\"aud\":%.*s}", (int)claims->aud.len, claims->aud.ptr));
    if (json_find_text(raw, "aud", arena, &one))
        return str_equal(one, client_id);
    size_t n = json_count(raw, "aud");
    bool found = false;
    for (size_t i = 0; i < n && !found; i++)
        found = json_find_text(raw, arena_printf(arena, "aud.%zu", i), arena, &one) &&
                str_equal(one, client_id);
    return found && (n == 1 || str_equal(claims->azp, client_id));
}

bool id_claims_check(const struct id_claims *claims, struct str issuer, struct str client_id,
                     struct str nonce, int64_t now_ms, struct arena *arena, struct error *err)
{
    const char *wrong = NULL;
    if (!str_equal(claims->iss, issuer))
        wrong = "issuer";
    else if (!is_for(claims, client_id, arena))
        wrong = "audience";
    else if (claims->exp * 1000 + SKEW_MS <= (double)now_ms)
        wrong = "expiry";
    else if (nonce.len == 0 || !bytes_equal_constant_time(claims->nonce, nonce))
        wrong = "nonce";
    return !wrong || error_set(err, ERR_UNAUTHENTICATED, "the ID token has the wrong %s", wrong);
}
