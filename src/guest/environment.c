#include "guest/environment.h"

static const char default_path[] = "/usr/local/bin:/usr/bin:/bin";

void environment_init(struct environment *env, struct arena *arena, size_t room)
{
    *env = (struct environment){
        .block = arena_array(arena, room + 1, sizeof(char *)),
        .room = room,
    };
}

static size_t name_len(struct str entry)
{
    const char *equals = entry.len ? memchr(entry.ptr, '=', entry.len) : NULL;

    return equals ? (size_t)(equals - entry.ptr) : 0;
}

void environment_put(struct environment *env, struct arena *arena, struct str entry)
{
    size_t len = name_len(entry);

    if (len == 0)
        return;
    for (size_t i = 0; i < env->n; i++) {
        if (strncmp(env->block[i], entry.ptr, len + 1) == 0) {
            env->block[i] = arena_text(arena, entry);
            return;
        }
    }
    if (env->n < env->room)
        env->block[env->n++] = arena_text(arena, entry);
}

void environment_put_value(struct environment *env, struct arena *arena, const char *name,
                           const char *value)
{
    environment_put(env, arena, str_of(arena_printf(arena, "%s=%s", name, value)));
}

const char *environment_get(const struct environment *env, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < env->n; i++) {
        if (strncmp(env->block[i], name, len) == 0 && env->block[i][len] == '=')
            return env->block[i] + len + 1;
    }
    return NULL;
}

void environment_build(struct environment *env, struct arena *arena, struct str_list image,
                       struct str_list launch, const struct user *user, const char *cwd)
{
    environment_init(env, arena, image.n + launch.n + 8);
    environment_put_value(env, arena, "PATH", default_path);
    environment_put_value(env, arena, "HOME", user->home);
    for (size_t i = 0; i < image.n; i++) {
        /* The loader's switches would decide what every program loads, ours included. */
        if (image.items[i].len < 3 || memcmp(image.items[i].ptr, "LD_", 3) != 0)
            environment_put(env, arena, image.items[i]);
    }
    environment_put_value(env, arena, "USER", user->name);
    environment_put_value(env, arena, "LOGNAME", user->name);
    environment_put_value(env, arena, "PWD", cwd);
    for (size_t i = 0; i < launch.n; i++)
        environment_put(env, arena, launch.items[i]);
}
