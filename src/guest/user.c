#include "guest/user.h"

#include <stdint.h>

#include "base/own.h"
#include "guest/path.h"

enum { ACCOUNTS_MAX = 1 << 20, FIELDS = 7 };

static bool parse_number(struct str text, uint32_t *number)
{
    uint64_t value = 0;

    if (text.len == 0 || text.len > 10)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    /* The highest number means "leave alone" to the kernel. */
    if (value >= UINT32_MAX)
        return false;
    *number = (uint32_t)value;
    return true;
}

static size_t split_line(struct str line, struct str fields[FIELDS])
{
    size_t n = 0;

    while (n < FIELDS && str_split(&line, ':', &fields[n]))
        n++;
    return n;
}

static void copy_field(char *to, size_t size, struct str from, const char *otherwise)
{
    if (from.len == 0 || from.len >= size)
        snprintf(to, size, "%s", otherwise);
    else
        snprintf(to, size, "%.*s", (int)from.len, from.ptr);
}

/* Fills the user from the first passwd line of that name or, without a name, that uid. */
static bool find_account(struct str passwd, struct str name, uint32_t uid, struct user *user)
{
    struct str line, fields[FIELDS];
    uint32_t line_uid, line_gid;

    while (str_split(&passwd, '\n', &line)) {
        if (split_line(line, fields) < FIELDS || !parse_number(fields[2], &line_uid) ||
            !parse_number(fields[3], &line_gid))
            continue;
        if (name.len ? !str_equal(fields[0], name) : line_uid != uid)
            continue;
        user->uid = line_uid;
        user->gid = line_gid;
        copy_field(user->name, sizeof user->name, fields[0], "user");
        copy_field(user->home, sizeof user->home, fields[5], "/");
        copy_field(user->shell, sizeof user->shell, fields[6], "/bin/sh");
        return true;
    }
    return false;
}

static bool find_group(struct str group, struct str name, gid_t *gid)
{
    struct str line, fields[FIELDS];
    uint32_t number;

    while (str_split(&group, '\n', &line)) {
        if (split_line(line, fields) >= 3 && str_equal(fields[0], name) &&
            parse_number(fields[2], &number)) {
            *gid = number;
            return true;
        }
    }
    return false;
}

static bool has_member(struct str members, const char *name)
{
    struct str member;

    while (str_split(&members, ',', &member)) {
        if (str_equal(member, str_of(name)))
            return true;
    }
    return false;
}

static void find_memberships(struct str group, struct user *user)
{
    struct str line, fields[FIELDS];
    uint32_t number;

    while (user->n_groups < USER_GROUPS_MAX && str_split(&group, '\n', &line)) {
        if (split_line(line, fields) >= 4 && parse_number(fields[2], &number) &&
            has_member(fields[3], user->name))
            user->groups[user->n_groups++] = number;
    }
}

bool user_find(struct str passwd, struct str group, struct str spec, struct user *user,
               struct error *err)
{
    struct str rest = spec.len ? spec : STR("0"), name = {0}, group_name = {0};
    uint32_t uid = 0;

    str_split(&rest, ':', &name);
    bool has_group = str_split(&rest, ':', &group_name);
    bool is_number = parse_number(name, &uid);

    *user = (struct user){.uid = uid, .name = "user", .home = "/", .shell = "/bin/sh"};
    if (uid == 0 && is_number)
        snprintf(user->name, sizeof user->name, "root");
    struct str wanted = name;
    if (is_number)
        wanted = STR("");
    bool is_known = find_account(passwd, wanted, uid, user);
    if (name.len == 0 || (!is_known && !is_number))
        return error_set(err, ERR_NOT_FOUND, "the image has no user \"%.*s\"", (int)name.len,
                         name.ptr);
    if (!has_group) {
        if (is_known)
            find_memberships(group, user);
        return true;
    }
    uint32_t gid;
    if (parse_number(group_name, &gid)) {
        user->gid = gid;
        return true;
    }
    if (!find_group(group, group_name, &user->gid))
        return error_set(err, ERR_NOT_FOUND, "the image has no group \"%.*s\"", (int)group_name.len,
                         group_name.ptr);
    return true;
}

/* A missing file is an image without names, which is legal. */
static bool read_accounts(const char *root, const char *path, char **text, struct error *err)
{
    struct error problem;

    if (path_read(root, path, ACCOUNTS_MAX, text, &problem))
        return true;
    if (problem.code == ERR_NOT_FOUND || problem.code == ERR_FORBIDDEN)
        return true;
    *err = problem;
    return false;
}

bool user_resolve(const char *root, struct str spec, struct user *user, struct error *err)
{
    AUTO_FREE char *passwd = NULL;
    AUTO_FREE char *group = NULL;

    if (!read_accounts(root, "/etc/passwd", &passwd, err) ||
        !read_accounts(root, "/etc/group", &group, err))
        return false;
    return user_find(str_of(passwd ? passwd : ""), str_of(group ? group : ""), spec, user, err);
}
