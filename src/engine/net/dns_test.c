#include "engine/net/dns.h"

#include "base/own.h"
#include "base/test.h"
#include "engine/net/policy.h"

/* Messages are written as text: labels by hand, numbers as escapes. */
#define HEAD(id, flags, questions, answers, others) \
    id flags "\0" questions "\0" answers "\0\0\0" others
#define QUERY(name, type)                  HEAD("\x12\x34", "\x01\0", "\1", "\0", "\0") name "\0" type "\0\1"
#define EXAMPLE                            "\7example\3com\0"
#define A                                  "\1"
#define ANSWER(n)                          HEAD("\xab\xcd", "\x81\x80", "\1", n, "\0") EXAMPLE "\0" A "\0\1"
#define RECORD(name, type, ttl, len, data) name "\0" type "\0\1\0\0" ttl "\0" len data
#define BACK                               "\xc0\x0c" /* the question's name */

static bool blocks(const void *arg, uint32_t address)
{
    return policy_blocks(arg, address);
}

struct outcome {
    enum dns_verdict verdict;
    char text[1024]; /* hex of the answer */
    unsigned code, n_answers;
    bool is_truncated;
    size_t len;
};

/* What a sandbox that asked for example.com hears of an answer from above. */
static struct outcome hear(struct str question_text, struct str upstream, size_t room)
{
    AUTO(buf_finish) struct buf out = {.max = DNS_MESSAGE_MAX};
    struct dns_question question;
    struct policy policy;
    struct error err = {0};
    struct dns_filter filter = {.blocks = blocks, .arg = &policy};
    struct outcome outcome = {.verdict = DNS_NOT_OURS};

    if (!policy_init(&policy, NULL, "10.1.0.0/16", &err) ||
        dns_question_parse(question_text, &question) != DNS_OK)
        return outcome;
    outcome.verdict = dns_answer_filter(upstream, &question, 0xabcd, &filter, room, &out);
    if (out.len >= DNS_HEADER_LEN) {
        outcome.code = (uint8_t)out.bytes[3] & 15;
        outcome.is_truncated = (uint8_t)out.bytes[2] & 2;
        outcome.n_answers = (uint8_t)out.bytes[7];
        outcome.len = out.len;
        if (out.len <= sizeof(outcome.text))
            memcpy(outcome.text, out.bytes, out.len);
    }
    return outcome;
}

static bool contains(const struct outcome *outcome, struct str bytes)
{
    return memmem(outcome->text, outcome->len, bytes.ptr, bytes.len) != NULL;
}

static const struct {
    const char *what;
    enum dns_code want;
    struct str message;
} questions[] = {
    {"a plain question", DNS_OK, STR(QUERY(EXAMPLE, A))},
    {"IPv6, answered empty", DNS_OK, STR(QUERY(EXAMPLE, "\x1c"))},
    {"the root", DNS_OK, STR(QUERY("\0", "\2"))},
    {"too short", DNS_DROP, STR("\x12\x34")},
    {"an answer", DNS_DROP, STR(ANSWER("\0"))},
    {"two questions", DNS_FORMAT_ERROR,
     STR(HEAD("\x12\x34", "\x01\0", "\2", "\0", "\0") EXAMPLE "\0\1\0\1" EXAMPLE "\0\1\0\1")},
    {"no question", DNS_FORMAT_ERROR, STR(HEAD("\x12\x34", "\x01\0", "\0", "\0", "\0"))},
    {"a name with a pointer", DNS_FORMAT_ERROR, STR(QUERY("\xc0\x0c", A))},
    {"a NUL in a label", DNS_FORMAT_ERROR, STR(QUERY("\3a\0b\3com\0", A))},
    {"a dot in a label", DNS_FORMAT_ERROR, STR(QUERY("\3a.b\3com\0", A))},
    {"a space in a label", DNS_FORMAT_ERROR, STR(QUERY("\3a b\3com\0", A))},
    {"an 8-bit byte", DNS_FORMAT_ERROR,
     STR(QUERY("\3a\xff"
               "b\3com\0", A))},
    {"a label cut short", DNS_FORMAT_ERROR, STR(HEAD("\x12\x34", "\1\0", "\1", "\0", "\0") "\x3f")},
    {"everything", DNS_REFUSED, STR(QUERY(EXAMPLE, "\xff"))},
    {"service hints", DNS_REFUSED, STR(QUERY(EXAMPLE, "\x41"))},
    {"an update", DNS_NOT_IMPLEMENTED,
     STR(HEAD("\x12\x34", "\x28\0", "\1", "\0", "\0") EXAMPLE "\0\1\0\1")},
};

TEST(only_one_well_formed_question_is_let_through)
{
    for (size_t i = 0; i < COUNT_OF(questions); i++) {
        struct dns_question question;
        enum dns_code got = dns_question_parse(questions[i].message, &question);
        if (got != questions[i].want)
            printf("# %s: %d\n", questions[i].what, (int)got);
        CHECK(got == questions[i].want);
    }
}

TEST(a_name_over_253_characters_is_refused)
{
    char message[DNS_HEADER_LEN + 5 * 64 + 5] = "\x12\x34\1\0\0\1\0\0\0\0\0";
    struct dns_question question;

    for (int labels = 3; labels <= 4; labels++) {
        size_t len = DNS_HEADER_LEN;
        for (int i = 0; i < labels; i++) {
            message[len++] = 63;
            memset(message + len, 'a', 63);
            len += 63;
        }
        static const char end[] = {0, 0, 1, 0, 1};
        memcpy(message + len, end, sizeof(end));
        enum dns_code got = dns_question_parse((struct str){message, len + 5}, &question);
        CHECK(got == (labels == 3 ? DNS_OK : DNS_FORMAT_ERROR));
    }
}

TEST(names_are_compared_without_case_and_echoed_as_asked)
{
    struct outcome outcome =
        hear(STR(QUERY("\7eXaMple\3COM\0", A)),
             STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\4", "\x08\x08\x08\x08")), 512);

    CHECK(outcome.verdict == DNS_ANSWERED && outcome.n_answers == 1 && outcome.code == DNS_OK);
    CHECK(contains(&outcome, STR("\7eXaMple\3COM\0\0\1\0\1")));
    CHECK(contains(&outcome, STR("\x08\x08\x08\x08")));
}

TEST(rebinding_answers_are_removed)
{
    static const struct {
        const char *what;
        unsigned code, n_answers;
        struct str upstream;
    } rows[] = {
        {"metadata", DNS_NO_NAME, 0,
         STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\4", "\xa9\xfe\xa9\xfe"))},
        {"private", DNS_NO_NAME, 0,
         STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\4", "\x0a\0\0\1"))},
        {"loopback", DNS_NO_NAME, 0,
         STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\4", "\x7f\0\0\1"))},
        {"our own gateway", DNS_NO_NAME, 0,
         STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\4", "\xc6\x12\0\1"))},
        {"an exception", DNS_OK, 1,
         STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\4", "\x0a\1\0\1"))},
        {"one of two", DNS_OK, 1,
         STR(ANSWER("\2") RECORD(BACK, A, "\0\x10", "\4", "\x0a\0\0\1")
                 RECORD(BACK, A, "\0\x10", "\4", "\x08\x08\x08\x08"))},
        {"behind an alias", DNS_NO_NAME, 0,
         STR(ANSWER("\2") RECORD(BACK, "\5", "\0\x10", "\4", "\1x\xc0\x14")
                 RECORD("\1x\xc0\x14", A, "\0\x10", "\4", "\xc0\xa8\0\1"))},
        {"a public alias", DNS_OK, 2,
         STR(ANSWER("\2") RECORD(BACK, "\5", "\0\x10", "\4", "\1x\xc0\x14")
                 RECORD("\1x\xc0\x14", A, "\0\x10", "\4", "\x08\x08\x08\x08"))},
        {"somebody else's", DNS_OK, 0,
         STR(ANSWER("\1") RECORD("\4evil\0", A, "\0\x10", "\4", "\x08\x08\x08\x08"))},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct outcome outcome = hear(STR(QUERY(EXAMPLE, A)), rows[i].upstream, 512);
        CHECK(outcome.verdict == DNS_ANSWERED);
        if (outcome.code != rows[i].code || outcome.n_answers != rows[i].n_answers)
            printf("# %s: code %u, %u answers\n", rows[i].what, outcome.code, outcome.n_answers);
        CHECK(outcome.code == rows[i].code && outcome.n_answers == rows[i].n_answers);
    }
}

TEST(an_answer_to_another_question_is_not_heard)
{
    struct str question = STR(QUERY("\5other\3com\0", A));
    struct outcome outcome =
        hear(question, STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\4", "\x08\x08\x08\x08")), 512);

    CHECK(outcome.verdict == DNS_NOT_OURS);
}

TEST(a_record_that_lies_about_its_length_is_not_heard)
{
    struct str question = STR(QUERY(EXAMPLE, A));

    CHECK(hear(question, STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\5", "\x08\x08\x08\x08")), 512)
              .verdict == DNS_NOT_OURS);
    CHECK(hear(question, STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\3", "\x08\x08\x08")), 512)
              .verdict == DNS_NOT_OURS);
    CHECK(hear(question, STR(ANSWER("\1") RECORD(BACK, "\5", "\0\x10", "\5", "\1x\xc0\x14\0")), 512)
              .verdict == DNS_NOT_OURS);
}

TEST(nothing_lives_longer_than_five_minutes)
{
    struct outcome outcome =
        hear(STR(QUERY(EXAMPLE, A)),
             STR(ANSWER("\1") RECORD(BACK, A, "\xff\xff", "\4", "\x08\x08\x08\x08")), 512);

    CHECK(outcome.verdict == DNS_ANSWERED);
    CHECK(contains(&outcome, STR("\0\1\0\1\0\0\x01\x2c\0\4\x08\x08\x08\x08")));
}

TEST(an_answer_too_large_for_its_asker_says_so)
{
    struct str answer = STR(ANSWER("\1") RECORD(BACK, A, "\0\x10", "\4", "\x08\x08\x08\x08"));
    struct outcome small = hear(STR(QUERY(EXAMPLE, A)), answer, 40);
    struct outcome unbounded = hear(STR(QUERY(EXAMPLE, A)), answer, 0);

    CHECK(small.is_truncated && small.n_answers == 0 && small.len <= 40);
    CHECK(!unbounded.is_truncated && unbounded.n_answers == 1);
}

TEST(a_truncated_answer_from_above_asks_for_more)
{
    struct str cut = STR(HEAD("\xab\xcd", "\x83\x80", "\1", "\0", "\0") EXAMPLE "\0" A "\0\1");

    CHECK(hear(STR(QUERY(EXAMPLE, A)), cut, 512).verdict == DNS_TRUNCATED);
}

TEST_MAIN()
