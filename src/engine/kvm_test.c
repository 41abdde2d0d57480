#include "engine/kvm.h"

#include <errno.h>
#include <sys/wait.h>

#include "base/test.h"

TEST(the_verdict_on_kvm_comes_with_words_and_leaves_no_child)
{
    char reason[256] = "";
    bool usable = kvm_probe(reason, sizeof(reason));

    printf("# %s: %s\n", usable ? "usable" : "not usable", reason);
    CHECK(strstr(reason, "/dev/kvm"));
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}

TEST(a_short_buffer_is_not_overrun)
{
    char reason[16];

    memset(reason, 'x', sizeof(reason));
    (void)kvm_probe(reason, 8);
    CHECK(strlen(reason) < 8 && reason[8] == 'x');
}

TEST_MAIN()
