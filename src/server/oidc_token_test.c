#include "server/oidc_token.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

#include "base/encode.h"
#include "base/own.h"
#include "base/test.h"

static struct arena arena;
static struct error err;

#define CLAIMS                                                                         \
    "{\"iss\":\"https://id.example\",\"sub\":\"7\",\"aud\":\"us\",\"exp\":2000000000," \
    "\"nonce\":\"n\",\"email\":\"a@example.test\",\"email_verified\":true,\"more\":[1]}"

static const char *encode(const void *bytes, size_t len)
{
    char *text = arena_alloc(&arena, (4 * len + 2) / 3 + 1);
    base64url_encode((struct str){bytes, len}, text);
    return text;
}

static const char *number_of(const EVP_PKEY *key, const char *name, int len)
{
    BIGNUM *number = NULL;
    unsigned char bytes[1024];
    if (!EVP_PKEY_get_bn_param(key, name, &number))
        return "";
    int n = len ? BN_bn2binpad(number, bytes, len) : BN_bn2bin(number, bytes);
    BN_free(number);
    return encode(bytes, (size_t)n);
}

static const char *rsa_set(const EVP_PKEY *key, const char *more)
{
    return arena_printf(
        &arena,
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"},{\"kty\":\"RSA\",\"kid\":\"1\","
        "\"n\":\"%s\",\"e\":\"%s\"%s}]}",
        number_of(key, OSSL_PKEY_PARAM_RSA_N, 0), number_of(key, OSSL_PKEY_PARAM_RSA_E, 0), more);
}

static const char *ec_set(const EVP_PKEY *key)
{
    return arena_printf(
        &arena,
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"2\",\"use\":\"sig\","
        "\"x\":\"%s\",\"y\":\"%s\"}]}",
        number_of(key, OSSL_PKEY_PARAM_EC_PUB_X, 32), number_of(key, OSSL_PKEY_PARAM_EC_PUB_Y, 32));
}

/* Raw: r and s side by side instead of DER. */
static const char *sign(EVP_PKEY *key, const char *head, const char *claims, bool is_raw)
{
    char *text =
        arena_printf(&arena, "%s.%s", encode(head, strlen(head)), encode(claims, strlen(claims)));
    unsigned char signature[1024], raw[64];
    size_t len = sizeof signature;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool ok =
        EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
        EVP_DigestSign(context, signature, &len, (const unsigned char *)text, strlen(text)) == 1;
    EVP_MD_CTX_free(context);
    if (!ok)
        return "";
    if (!is_raw)
        return arena_printf(&arena, "%s.%s", text, encode(signature, len));
    const unsigned char *der = signature;
    ECDSA_SIG *numbers = d2i_ECDSA_SIG(NULL, &der, (long)len);
    ok = BN_bn2binpad(ECDSA_SIG_get0_r(numbers), raw, 32) == 32 &&
         BN_bn2binpad(ECDSA_SIG_get0_s(numbers), raw + 32, 32) == 32;
    ECDSA_SIG_free(numbers);
    return ok ? arena_printf(&arena, "%s.%s", text, encode(raw, sizeof raw)) : "";
}

static bool reads(const char *token, const char *set, struct id_claims *claims)
{
    return id_token_read(str_of(token), str_of(set), &arena, claims, &err);
}

TEST(a_token_signed_with_rsa_or_p256_is_read)
{
    struct id_claims claims;
    EVP_PKEY *rsa = EVP_RSA_gen(2048), *ec = EVP_EC_gen("P-256");
    const char *by_rsa = sign(rsa, "{\"alg\":\"RS256\",\"kid\":\"1\"}", CLAIMS, false);
    const char *by_ec = sign(ec, "{\"alg\":\"ES256\",\"kid\":\"2\"}", CLAIMS, true);
    const char *unnamed = sign(ec, "{\"alg\":\"ES256\"}", CLAIMS, true);
    bool rsa_ok = reads(by_rsa, rsa_set(rsa, ""), &claims);
    bool email_ok = str_equal(claims.email, STR("a@example.test")) &&
                    str_equal(claims.email_verified, STR("true"));
    bool ec_ok = reads(by_ec, ec_set(ec), &claims) && reads(unnamed, ec_set(ec), &claims);
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(ec);
    CHECK(rsa_ok && email_ok && ec_ok);
}

/* Signed with what everybody knows: the modulus as the key of a hash. */
static const char *hashed(const char *alg, const EVP_PKEY *rsa)
{
    const char *head = arena_printf(&arena, "{\"alg\":\"%s\",\"kid\":\"1\"}", alg);
    const char *key = number_of(rsa, OSSL_PKEY_PARAM_RSA_N, 0);
    char *text =
        arena_printf(&arena, "%s.%s", encode(head, strlen(head)), encode(CLAIMS, strlen(CLAIMS)));
    unsigned char tag[32];
    unsigned len = sizeof tag;
    HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)text, strlen(text), tag, &len);
    return arena_printf(&arena, "%s.%s", text, encode(tag, len));
}

TEST(what_is_not_signed_by_the_provider_is_refused)
{
    struct id_claims claims;
    EVP_PKEY *rsa = EVP_RSA_gen(2048), *other = EVP_RSA_gen(2048), *small = EVP_RSA_gen(1024),
             *ec = EVP_EC_gen("P-256");
    const char *head = "{\"alg\":\"RS256\",\"kid\":\"1\"}", *set = rsa_set(rsa, "");
    const char *good = sign(rsa, head, CLAIMS, false);
    char *none = arena_printf(&arena, "%s.%s.", encode("{\"alg\":\"none\"}", 14),
                              encode(CLAIMS, strlen(CLAIMS)));
    char *tampered = arena_text(&arena, str_of(good));
    char *at = strchr(tampered, '.') + 8;
    *at = *at == 'A' ? 'B' : 'A';
    const struct {
        const char *what, *token, *set;
    } cases[] = {
        {"another's key", sign(other, head, CLAIMS, false), set},
        {"no signature", none, set},
        {"a keyed hash", hashed("HS256", rsa), set},
        {"a keyed hash that says otherwise", hashed("RS256", rsa), set},
        {"another key's name", sign(rsa, "{\"alg\":\"RS256\",\"kid\":\"9\"}", CLAIMS, false), set},
        {"changed claims", tampered, set},
        {"a small key", sign(small, head, CLAIMS, false), rsa_set(small, "")},
        {"a key for encryption", good, rsa_set(rsa, ",\"use\":\"enc\"")},
        {"a key of another algorithm", good, rsa_set(rsa, ",\"alg\":\"PS256\"")},
        {"DER where numbers belong", sign(ec, "{\"alg\":\"ES256\"}", CLAIMS, false), ec_set(ec)},
        {"two parts", "e30.e30", set},
        {"four parts", arena_printf(&arena, "%s.e30", good), set},
        {"no keys", good, "{\"keys\":[]}"},
        {"no set", good, "[]"},
        {"nothing", "", set},
    };
    const char *wrong = reads(good, set, &claims) ? NULL : "the good one";
    for (size_t i = 0; i < COUNT_OF(cases) && !wrong; i++)
        if (reads(cases[i].token, cases[i].set, &claims))
            wrong = cases[i].what;
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(other);
    EVP_PKEY_free(small);
    EVP_PKEY_free(ec);
    CHECK_STR(wrong ? wrong : "", "");
}

TEST(claims_of_another_issuer_client_time_or_sign_in_are_refused)
{
    static const struct id_claims good = {
        .iss = STR("https://id.example"),
        .aud = STR("\"us\""),
        .nonce = STR("n"),
        .exp = 1000,
    };
    static const struct {
        const char *aud, *azp, *iss, *nonce;
        double exp;
        bool holds;
    } cases[] = {
        {"\"us\"",            NULL, "https://id.example",  "n", 1000, true },
        {"[\"us\"]",          NULL, "https://id.example",  "n", 1000, true },
        {"[\"us\",\"them\"]", "us", "https://id.example",  "n", 1000, true },
        {"[\"us\",\"them\"]", NULL, "https://id.example",  "n", 1000, false},
        {"[\"them\"]",        "us", "https://id.example",  "n", 1000, false},
        {"\"them\"",          NULL, "https://id.example",  "n", 1000, false},
        {"null",              NULL, "https://id.example",  "n", 1000, false},
        {"\"us\"",            NULL, "https://id.example/", "n", 1000, false},
        {"\"us\"",            NULL, "https://id.example",  "m", 1000, false},
        {"\"us\"",            NULL, "https://id.example",  "",  1000, false},
        {"\"us\"",            NULL, "https://id.example",  "n", 900,  false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct id_claims claims = good;
        claims.aud = str_of(cases[i].aud);
        claims.azp = cases[i].azp ? str_of(cases[i].azp) : (struct str){0};
        claims.iss = str_of(cases[i].iss);
        claims.nonce = str_of(cases[i].nonce);
        claims.exp = cases[i].exp;
        CHECK(id_claims_check(&claims, STR("https://id.example"), STR("us"), STR("n"), 990000,
                              &arena, &err) == cases[i].holds);
    }
    CHECK(!id_claims_check(&good, STR("https://id.example"), STR("us"), (struct str){0}, 0, &arena,
                           &err));
}

TEST_MAIN()
