// What a program in a sandbox may count on, whatever engine it runs on.

/** Name, what is asked of a shell in the sandbox, what it must say. */
export const contract: readonly (readonly [string, string, RegExp])[] = [
  ["the host is called helmr-sandbox", "hostname; cat /etc/hostname", /^(helmr-sandbox\n?){2}$/],
  ["the hosts file has localhost", "grep localhost /etc/hosts", /^127\.0\.0\.1\s+localhost/m],
  ["the hosts file has the sandbox", "grep helmr-sandbox /etc/hosts", /helmr-sandbox/],
  ["there is a nameserver", "cat /etc/resolv.conf", /^nameserver 198\.18\.0\.1$/m],
  ["there is a default route", "cat /proc/net/route", /^eth0\s+00000000\s+010012C6\s/m],
  [
    "the usual devices are there",
    "for d in null zero full random urandom tty ptmx; do test -c /dev/$d && echo $d; done",
    /^null\nzero\nfull\nrandom\nurandom\ntty\nptmx$/,
  ],
  ["zeroes come from /dev/zero", "head -c 4 /dev/zero | od -An -tx1", /^00 00 00 00$/],
  ["randomness comes from /dev/urandom", "head -c 8 /dev/urandom | wc -c", /^8$/],
  ["a terminal can be opened", "script -qec tty /dev/null </dev/null", /^\/dev\/pts\/\d+\s*$/],
  ["shared memory can be used", "echo shared > /dev/shm/x && cat /dev/shm/x", /^shared$/],
  ["/tmp is for everyone", "find /tmp -maxdepth 0 -printf %m; touch /tmp/x && echo ok", /^1777ok$/],
  ["/run is there", "test -d /run && echo ok", /^ok$/],
  ["/proc shows this sandbox", "cat /proc/self/comm; test -d /proc/1 && echo ok", /^cat\nok$/],
  ["/sys is there", "test -d /sys && echo ok", /^ok$/],
  ["a program starts in the workspace", "pwd", /^\/workspace$/],
  ["a new workspace is empty", "find . -mindepth 1 | wc -l", /^0$/],
  ["the workspace can be written", "echo a > a && cat /workspace/a", /^a$/],
  ["the image can be written", "echo a > /usr/scratch && cat /usr/scratch", /^a$/],
  ["the deployment is at /opt/helmr/task", "cd /opt/helmr/task/tasks && ls", /^outcomes\.ts$/m],
  ["the deployment is not in the workspace", "find /workspace -name '*.ts' | wc -l", /^0$/],
  [
    "platform files cannot be written",
    "for d in adapter sdk task; do touch /opt/helmr/$d/x || echo $d; done; rm /opt/helmr/task/*",
    /adapter[^]*sdk[^]*task/,
  ],
  [
    "platform files are what they were",
    "test -e /opt/helmr/task/package.json && find /opt/helmr -name x | wc -l",
    /^0$/,
  ],
  ["programs run as the user of the image", "id -u; id -un", /^0\nroot$/],
  [
    "the environment is the user's",
    'echo "$HOME $USER $LOGNAME $PWD"',
    /^\/root root root \/workspace$/,
  ],
  ["no platform variable is left", "env | grep -c HELMR_", /^0$/],
  [
    "nothing of the run is in an argument",
    "cat /proc/*/cmdline | grep -c '[s]cripts-of-this-run'",
    /^0$/,
  ],
  ["no memory image is written when a program crashes", "ulimit -c", /^0$/],
];

/** What its rows ask, as the payload of a task that runs scripts. */
export const contractScripts = Object.fromEntries(contract.map(([name, script]) => [name, script]));
