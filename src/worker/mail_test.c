#include "worker/mail.h"

#include "base/own.h"
#include "base/test.h"
#include "worker/worker.h"

static struct lease *add_lease(struct worker *worker, const char *id)
{
    const struct wire_grant grant = {
        .kind = STR("mount"),
        .lease_id = str_of(id),
        .environment_id = STR("environment"),
        .project_id = STR("project"),
    };

    return lease_add(&worker->leases, worker, &grant, 60000);
}

static void post(struct worker *worker, const char *lease, const char *process, int64_t offset)
{
    mail_post(&worker->leases, &(struct wire_message){
                                   .cursor = 1,
                                   .lease_id = str_of(lease),
                                   .type = STR("process_input"),
                                   .process_id = str_of(process),
                                   .offset = offset,
                                   .data = STR("aGk="),
                               });
}

static bool takes(struct lease *lease, const char *process, int64_t offset)
{
    struct mail *mail = mail_take(lease);
    bool is_it = mail && strcmp(mail->type, "process_input") == 0 &&
                 str_equal(mail->message.process_id, str_of(process)) &&
                 mail->message.offset == offset;

    mail_free(mail);
    return is_it;
}

/* The lease's thread is nobody's here: it is taken out by hand. */
static void finish(struct worker *worker)
{
    while (worker->leases.first) {
        struct lease *lease = worker->leases.first;
        worker->leases.first = lease->next;
        close(lease->wake);
        mail_drop(&lease->mail);
        arena_finish(&lease->arena);
        free(lease);
    }
    lease_table_finish(&worker->leases);
}

TEST(messages_come_in_order_and_to_their_lease_alone)
{
    static struct worker worker;

    lease_table_init(&worker.leases);
    struct lease *one = add_lease(&worker, "one"), *other = add_lease(&worker, "other");
    post(&worker, "one", "a", 0);
    post(&worker, "other", "b", 5);
    post(&worker, "one", "a", 2);
    CHECK(takes(one, "a", 0) && takes(one, "a", 2));
    CHECK(!mail_take(one));
    CHECK(takes(other, "b", 5) && !mail_take(other));
    finish(&worker);
}

TEST(a_message_that_comes_before_its_lease_waits_for_it)
{
    static struct worker worker;

    lease_table_init(&worker.leases);
    post(&worker, "late", "a", 1);
    post(&worker, "never", "b", 2);
    post(&worker, "late", "a", 3);
    struct lease *late = add_lease(&worker, "late");
    CHECK(takes(late, "a", 1) && takes(late, "a", 3) && !mail_take(late));
    CHECK(worker.leases.early.n == 1);
    finish(&worker);
}

TEST(a_lease_that_does_not_read_is_told_that_it_lost_some)
{
    static struct worker worker;

    lease_table_init(&worker.leases);
    struct lease *lease = add_lease(&worker, "full");
    for (int64_t i = 0; i < 4096; i++)
        post(&worker, "full", "a", i);
    CHECK(!lease_look(lease).has_lost_mail);
    post(&worker, "full", "a", 4096);
    CHECK(lease_look(lease).has_lost_mail);
    CHECK(takes(lease, "a", 0));
    finish(&worker);
}

TEST_MAIN()
