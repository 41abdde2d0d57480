/* reseed.node: makes OpenSSL's generator of this Node process forget what a copy of its memory
 * knows. Loaded into Node of any image, so it needs no libc: every name below is Node's own. When
 * one is missing the file does not load, and the adapter says that it cannot reseed.
 */
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

struct node_env;
struct node_value;
struct node_call;

typedef struct node_value *node_function(struct node_env *env, struct node_call *call);

/* Node-API, version 8; each returns 0 when it did what it says. */
int napi_create_function(struct node_env *env, const char *name, size_t len, node_function *call,
                         void *data, struct node_value **result);
int napi_get_cb_info(struct node_env *env, struct node_call *call, size_t *n_args,
                     struct node_value **args, struct node_value **self, void **data);
int napi_get_buffer_info(struct node_env *env, struct node_value *value, void **data, size_t *len);
int napi_get_boolean(struct node_env *env, _Bool value, struct node_value **result);

/* OpenSSL, as it is linked into Node or loaded by it. */
void RAND_add(const void *bytes, int len, double entropy);
int RAND_poll(void);
int RAND_status(void);
int RAND_bytes(unsigned char *bytes, int len);

EXPORTED int32_t node_api_module_get_api_version_v1(void);
EXPORTED struct node_value *napi_register_module_v1(struct node_env *env,
                                                    struct node_value *exports);

enum { API_VERSION = 8, BYTES_MIN = 16, BYTES_MAX = 4096 };

/* The primary generator takes fresh bytes of the kernel besides ours; those of the threads follow
 * it, because they see that it was reseeded. A failed reseed shows in the status. */
static _Bool stir(void *bytes, size_t len)
{
    if (len < BYTES_MIN || len > BYTES_MAX)
        return 0;
    RAND_add(bytes, (int)len, 0);
    return RAND_poll() == 1 && RAND_status() == 1 && RAND_bytes(bytes, (int)len) == 1;
}

/* reseed(buffer): stirs the buffer in and fills it with what the generator gives afterwards. */
static struct node_value *reseed(struct node_env *env, struct node_call *call)
{
    struct node_value *buffer = NULL, *result = NULL;
    size_t n_args = 1, len = 0;
    void *bytes = NULL;
    _Bool is_done = napi_get_cb_info(env, call, &n_args, &buffer, NULL, NULL) == 0 && n_args == 1 &&
                    napi_get_buffer_info(env, buffer, &bytes, &len) == 0 && stir(bytes, len);

    return napi_get_boolean(env, is_done, &result) == 0 ? result : NULL;
}

int32_t node_api_module_get_api_version_v1(void)
{
    return API_VERSION;
}

struct node_value *napi_register_module_v1(struct node_env *env, struct node_value *exports)
{
    struct node_value *function = NULL;

    return napi_create_function(env, "reseed", sizeof "reseed" - 1, reseed, NULL, &function) == 0
               ? function
               : exports;
}
