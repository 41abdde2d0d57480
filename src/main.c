#include <stdio.h>

int main(void)
{
    puts(HELMR_VERSION);
    return 0;
}
