// The console's pages of things, as people work with them: sessions, workspaces, tasks, deployments,
// schedules and settings, and the pages where people come in; every action by the hand that does it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, suite, test } from "node:test";
import type { Browser, Locator, Page } from "playwright-core";
import {
  browserMissing,
  checkAccess,
  desk,
  openBrowser,
  phone,
  picture,
  settled,
  visit,
} from "./lib/console.ts";
import { projects } from "./lib/helmr.ts";
import { foreign, texts } from "./lib/hostile.ts";
import { startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";

const password = "a long enough password";

suite("the console's pages", { skip: browserMissing }, () => {
  const scope = declaredScope();
  let own: Own;
  let browser: Browser;
  let owner: Page;
  let ownerFaults: string[];
  let deployment = "";
  let session = "";
  let workspace = "";

  const open = async (path: string, page = owner): Promise<void> => {
    await page.goto(own.place.url + path);
    await page.locator("main h1").waitFor();
  };
  const press = (name: string | RegExp, within: Page | Locator = owner): Promise<void> =>
    within.getByRole("button", { name, exact: typeof name === "string" }).click();
  /** The button, then the same word of the question that takes its place. */
  const confirm = async (name: string, within: Page | Locator = owner): Promise<void> => {
    await press(name, within);
    await press(name, within);
  };
  const row = (text: string): Locator => owner.getByRole("row").filter({ hasText: text });
  const asOwner = async (path: string): Promise<any> => {
    const { status, body } = await own.api(path, { key: own.session });
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };
  /** Somebody with this role, by an invitation, in a browser of their own. */
  const joined = async (email: string, role: string): Promise<Page> => {
    const { body } = await own.api("/invitations", {
      method: "POST",
      key: own.session,
      body: JSON.stringify({ email, role }),
    });
    const page = await (await browser.newContext(desk)).newPage();
    await page.goto(body.invite_url);
    await page.getByLabel("Name").fill(role);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Join" }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    return page;
  };

  before(async () => {
    own = await startOwn(scope, {
      env: { HELMR_WAIT_HOT_TIME: "60s" },
      workers: [{ name: "first", env: { HELMR_WORKER_LABELS: "zone=<b>east</b>" } }],
    });
    deployment = await own.deployed(`${projects}pages`);
    await own.printed(["deployment", "promote", deployment]);
    browser = await openBrowser(scope);
    ({ page: owner, faults: ownerFaults } = await visit(browser, own.place.url));
    const named = { externalId: "talk-1" };
    const started = await own.client.sessions.start("talk", { texts }, named);
    session = started.session.id;
    ({ workspaceId: workspace } = await own.client.sessions.retrieve(session));
  });

  test("a run is started from the fields of its payload, which say what is wrong", async () => {
    await open("/tasks");
    await owner.getByRole("link", { name: "orders" }).click();
    const title = owner.getByLabel("Title");
    await title.fill("ab");
    await press("Start a run");
    await owner.getByText("must have at least 3 characters").waitFor();
    assert.equal(await owner.getByText("is required").count(), 2);
    assert.equal(await title.getAttribute("aria-invalid"), "true");
    await picture(owner, "task-refused");
    await checkAccess(owner, "a form with faults");
    await title.fill("A chair");
    await owner.getByLabel("Count").fill("3");
    await owner.getByLabel("Rush").uncheck();
    await owner.getByLabel("Size").selectOption("large");
    await owner.getByLabel("City").fill("Atlantis");
    await owner.getByLabel("Labels").fill("one\ntwo");
    await owner.getByLabel("Extra").fill("{");
    await press("Start a run");
    await owner.getByText("is not JSON").waitFor();
    await owner.getByLabel("Extra").fill('{"a": [1]}');
    await owner.getByLabel("Tags").fill("paper, wood");
    await press("Start a run");
    await owner.waitForURL(/\/runs\//);
    const id = owner.url().split("/").at(-1) as string;
    const refused = await own.client.runs.wait(id);
    assert.equal(refused.error?.failureKind, "payload_invalid");
    assert.deepEqual(refused.tags, ["paper", "wood"]);
    await open(`/tasks/orders?from=${id}`);
    await owner.getByText("has sunk", { exact: true }).waitFor();
    assert.equal(await owner.getByLabel("Title").inputValue(), "A chair");
    await owner.getByLabel("City").fill("Paris");
    assert.equal(await owner.getByText("has sunk", { exact: true }).count(), 0);
    await press("JSON");
    const raw = owner.getByLabel("Payload", { exact: true });
    assert.match(await raw.inputValue(), /"city": "Paris"/);
    await raw.fill("{");
    await owner.getByRole("button", { name: "Form", disabled: true }).waitFor();
    await raw.fill('{"title":"A desk","count":1,"size":"small","address":{"city":"Rome"}}');
    await press("Form");
    assert.equal(await owner.getByLabel("City").inputValue(), "Rome");
    await press("Start a run");
    await owner.waitForURL(/\/runs\//);
    const over = await own.client.runs.wait(owner.url().split("/").at(-1) as string);
    assert.deepEqual((over.output as { address: unknown }).address, { city: "Rome" });
  });

  test("an option that the server refuses is told at its field", async () => {
    await open("/tasks/talk");
    await owner.getByText("More options").click();
    await owner.getByLabel("Start within").fill("soon");
    await press("Start a run");
    const field = owner.locator(".field").filter({ hasText: "Start within" });
    await field.locator(".problem").waitFor();
  });

  test("a session is read in order, and goes on when something is said", async () => {
    await open("/sessions");
    await owner.getByLabel("External id").fill("talk-1");
    await owner.getByRole("link", { name: "talk", exact: true }).click();
    await owner.getByText("Run 1 begins").waitFor();
    await until("all that it said", async () => {
      return (await owner.locator(".said-list .out").count()) === texts.length;
    });
    await owner.getByLabel("Say more to questions").fill("how are you?");
    await owner.keyboard.press("Control+Enter");
    await owner.getByText('heard "how are you?"').waitFor();
    await owner.getByText("Run 1 succeeded").waitFor();
    const marks = await owner.locator(".said-list li").allInnerTexts();
    assert.deepEqual(
      marks.map((text) => /begins|from answers|to questions|succeeded/.exec(text)?.[0]),
      ["begins", ...texts.map(() => "from answers"), "to questions", "from answers", "succeeded"],
    );
    await press("questions");
    assert.equal(await owner.locator(".said-list .out").count(), 0);
    assert.equal(await owner.evaluate("window.hit"), undefined);
  });

  test("files are uploaded, shown, downloaded, renamed and deleted", async () => {
    await open(`/workspaces/${workspace}`);
    await press("notes/");
    const files = [
      { name: "two.txt", mimeType: "text/plain", buffer: Buffer.from("the second\n") },
      { name: "three.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0, 1, 2]) },
    ];
    await owner.getByLabel("Files to upload").setInputFiles(files);
    await press("two.txt");
    await owner.getByText("the second").waitFor();
    const [download] = await Promise.all([owner.waitForEvent("download"), press("Download")]);
    assert.equal(readFileSync(await download.path(), "utf8"), "the second\n");
    await press("three.bin");
    await owner.getByText("It is not text.").waitFor();
    await press("Rename", row("two.txt"));
    await owner.getByLabel("New path").fill("notes/renamed.txt");
    await owner.keyboard.press("Enter");
    await row("renamed.txt").waitFor();
    await confirm("Delete", row("three.bin"));
    await row("three.bin").waitFor({ state: "detached" });
    await press("New folder");
    await owner.getByLabel("Name of the folder").fill("deep");
    await owner.keyboard.press("Enter");
    await press("deep/");
    await owner.getByText("The folder is empty").waitFor();
    const [tar] = await Promise.all([owner.waitForEvent("download"), press("Download as tar")]);
    assert.equal(tar.suggestedFilename(), "notes-deep.tar");
    const entries = await own.client.workspaces.open(workspace).files.list("notes");
    assert.deepEqual(
      entries.map(({ name }) => name),
      ["deep", "one.txt", "renamed.txt"],
    );
  });

  test("any two versions are compared, one is restored, and one becomes a branch", async () => {
    const versions = await own.client.workspaces.open(workspace).versions.list();
    const first = versions.at(-1)?.id as string;
    await open(`/workspaces/${workspace}?tab=Versions`);
    await owner.getByText("current", { exact: true }).waitFor();
    await picture(owner, "workspace-versions");
    await owner.getByRole("tab", { name: "Changes" }).click();
    await owner.getByLabel("From").selectOption(first);
    await owner.getByText("notes/renamed.txt").waitFor();
    await owner.getByText("+the second").waitFor();
    await picture(owner, "workspace-changes");
    await press("Swap");
    await owner.getByText("-the second").waitFor();
    await owner.getByRole("tab", { name: "Versions" }).click();
    const before = (await own.client.workspaces.retrieve(workspace)).currentVersionId;
    await confirm("Restore", row(first.slice(-12)));
    await until("a restored version", async () => {
      const now = await own.client.workspaces.retrieve(workspace);
      return now.currentVersionId !== before;
    });
    const files = await own.client.workspaces.open(workspace).files.list("notes");
    assert.deepEqual(
      files.map(({ name }) => name),
      ["one.txt"],
    );
    await press("Branch", row(first.slice(-12)));
    await owner.getByText("Branch of").waitFor();
    await row("notes/").waitFor();
  });

  test("a command runs in the workspace, and its output is read", async () => {
    await open(`/workspaces/${workspace}?tab=Commands`);
    await owner.getByLabel("Command", { exact: true }).fill("ls notes; echo '<b>bold</b>'");
    await press("Run");
    await owner.locator(".log-box").getByText("one.txt").waitFor();
    await owner.locator(".log-box").getByText("<b>bold</b>").waitFor();
    await row("exited").first().waitFor();
    await picture(owner, "workspace-commands");
  });

  test("terminals are tabs that outlive the page", async () => {
    await open(`/workspaces/${workspace}?tab=Terminal`);
    await press("New terminal");
    const screen = owner.locator(".xterm-rows");
    await screen.getByText("#").first().waitFor();
    const typed = async (line: string, shows: string): Promise<void> => {
      await owner.locator(".screen").click();
      await owner.keyboard.type(`${line}\n`);
      await screen.getByText(shows).first().waitFor();
    };
    await typed("echo $((40 + 2)) '<img src=x onerror=window.hit=1>'", "42 <img");
    await press("New terminal");
    await owner.getByRole("tab", { name: "Terminal 2", selected: true }).waitFor();
    await screen.getByText("#").first().waitFor();
    await typed("echo second $((1 + 1))", "second 2");
    await picture(owner, "workspace-terminals");
    await checkAccess(owner, "terminals");
    await owner.reload();
    await screen.getByText("second 2").first().waitFor();
    await typed("echo again $((2 + 1))", "again 3");
    await owner.getByRole("tab", { name: "Terminal 2" }).focus();
    await owner.keyboard.press("ArrowLeft");
    await screen.getByText("42 <img").first().waitFor();
    await press("Close this one");
    await owner.getByRole("tab", { name: "Terminal 2" }).waitFor({ state: "detached" });
    assert.equal(await owner.evaluate("window.hit"), undefined);
    await press("Stop");
    await owner.getByText("stopped").waitFor();
  });

  test("a build is followed step by step, and promoted", async () => {
    const path = project(scope, {
      "tasks/a.ts": { id: "late", steps: `.run(["sh", "-c", "sleep 1; echo '<i>done</i>'"])` },
    });
    const building = own.deploy(path);
    await open("/deployments");
    await row("building").getByRole("link").click();
    await owner.locator(".phases").getByText("image").waitFor();
    await owner.locator(".phases code").filter({ hasText: "sleep 1" }).waitFor();
    await picture(owner, "deployment-building");
    const { id } = await building;
    await press("Promote");
    await owner.getByText("New runs of Production use it from now on.").waitFor();
    await press("Promote");
    await owner.getByText("current", { exact: true }).waitFor();
    assert.equal((await asOwner("/deployments/current")).deployment.id, id);
    await open(`/deployments/${deployment}`);
    await confirm("Promote");
    await owner.getByText("current", { exact: true }).waitFor();
  });

  test("a build that failed says where and why", async () => {
    const path = project(scope, { "tasks/a.ts": `throw new Error(${JSON.stringify(texts.slice(0, 4).join(" "))});\n` });
    const { id } = await own.deploy(path);
    await open(`/deployments/${id}`);
    await owner.locator(".fault").getByText("tasks/a.ts").first().waitFor();
    await picture(owner, "deployment-failed");
    await checkAccess(owner, "a failed deployment");
    assert.equal(await owner.evaluate("window.hit"), undefined);
  });

  test("schedules are made, refused with a reason, changed, switched off and deleted", async () => {
    await open("/schedules");
    await owner.getByLabel("Task").selectOption("talk");
    await owner.getByLabel("Key", { exact: true }).fill("nightly");
    await owner.getByLabel("Cron").fill("61 * * * *");
    await press("Create");
    await owner.locator(".field").filter({ hasText: "Cron" }).locator(".problem").waitFor();
    await press("Every day at 9");
    await owner.getByLabel("Time zone").fill("Europe/Berlin");
    await press("Create");
    await row("nightly").getByText("0 9 * * *").waitFor();
    await press("Edit", row("nightly"));
    await owner.getByLabel("Cron").fill("30 4 * * 1");
    await picture(owner, "schedule-edited");
    await press("Save");
    await row("nightly").getByText("30 4 * * 1").waitFor();
    await press("Deactivate", row("nightly"));
    await row("nightly").getByText("inactive").waitFor();
    await press("Activate", row("nightly"));
    await row("nightly").getByText("active", { exact: true }).waitFor();
    await confirm("Delete", row("nightly"));
    await row("nightly").waitFor({ state: "detached" });
    assert.deepEqual((await asOwner("/schedules")).schedules, []);
  });

  test("a secret is set, replaced and deleted, and its value is nowhere", async () => {
    const value = "the-value-of-a-secret";
    await open("/settings/secrets");
    await owner.getByLabel("Name").fill("API_TOKEN");
    await owner.getByLabel("Value").fill(value);
    await press("Set");
    await row("API_TOKEN").waitFor();
    await press("Replace", row("API_TOKEN"));
    assert.equal(await owner.getByLabel("Name").inputValue(), "API_TOKEN");
    assert.doesNotMatch(await owner.content(), new RegExp(value));
    assert.equal(await owner.getByLabel("Value").inputValue(), "");
    await owner.reload();
    await row("API_TOKEN").waitFor();
    assert.doesNotMatch(await owner.content(), new RegExp(value));
    await confirm("Delete", row("API_TOKEN"));
    await owner.getByText("There is no secret here").waitFor();
  });

  test("a key is shown once, works, and stops working", async () => {
    await open("/settings/api-keys");
    await owner.getByLabel("Name").fill("robot");
    await owner.getByLabel("workspace-files:read").check();
    await press("Create");
    const shown = owner.locator(".once code");
    const key = await shown.innerText();
    await picture(owner, "key-once");
    await checkAccess(owner, "a new key");
    assert.equal((await own.api("/runs", { key })).status, 200);
    await owner.reload();
    await row("robot").waitFor();
    assert.doesNotMatch(await owner.content(), new RegExp(key));
    await confirm("Revoke", row("robot"));
    await row("robot").waitFor({ state: "detached" });
    assert.equal((await own.api("/runs", { key })).status, 401);
  });

  test("projects and environments are made, renamed, coloured, limited and deleted", async () => {
    await open("/settings/projects");
    await owner.getByLabel("Name", { exact: true }).fill("Second");
    await press("Create");
    await owner.getByLabel("Name of second").fill("Renamed");
    await press("Rename");
    await until("the new name", async () =>
      (await asOwner("/projects")).projects.some(({ name }: { name: string }) => name === "Renamed"),
    );
    await confirm("Delete", row("second"));
    await row("second").waitFor({ state: "detached" });
    await open("/settings/environments");
    await owner.locator("form.narrow").getByLabel("Name").fill("Trial");
    await press("Create");
    const card = owner.getByRole("form", { name: "Trial" });
    await card.getByLabel("Colour").fill("#1f8a4c");
    await card.getByLabel("Least isolation").selectOption("user-kernel");
    await card.getByLabel("Most workspaces").fill("7");
    await picture(owner, "environments-edited");
    await press("Save", card);
    await until("the changes", async () => {
      const [{ environments }] = (await asOwner("/projects")).projects;
      const trial = environments.find(({ slug }: { slug: string }) => slug === "trial");
      const { color_hex, limits, min_grade } = trial;
      return color_hex === "#1f8a4c" && limits.workspaces === 7 && min_grade === "user-kernel";
    });
    await card.getByLabel("Name").fill("Try");
    await press("Save", card);
    const renamed = owner.getByRole("form", { name: "Try", exact: true });
    await confirm("Delete", renamed);
    await renamed.waitFor({ state: "detached" });
    await owner.getByRole("form", { name: "Production" }).getByText("protected").waitFor();
  });

  test("somebody is invited, joins, signs in and out, gets another role and is removed", async () => {
    await open("/settings/members");
    await owner.getByLabel("E-mail").fill("ada@example.com");
    await owner.getByLabel("Role", { exact: true }).selectOption("viewer");
    await press("Invite");
    const link = await owner.locator(".once code").innerText();
    await row("ada@example.com").waitFor();
    await picture(owner, "members-invited");
    const page = await (await browser.newContext(desk)).newPage();
    await page.goto(link);
    await page.getByRole("heading", { name: "Join" }).waitFor();
    await checkAccess(page, "an invitation");
    await picture(page, "invite");
    await page.getByLabel("Name").fill("Ada");
    await page.getByLabel("Password").fill("short");
    await press("Join", page);
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Password").fill(password);
    await press("Join", page);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await press("Sign out", page);
    await page.waitForURL(/\/login/);
    await picture(page, "login");
    await checkAccess(page, "signing in");
    await page.getByLabel("E-mail").fill("ada@example.com");
    await page.getByLabel("Password").fill("another password");
    await press("Sign in", page);
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Password").fill(password);
    await press("Sign in", page);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await open("/settings/members");
    await owner.getByLabel("Role of ada@example.com").selectOption("developer");
    await press("Change");
    await until("the new role", async () => {
      const { members } = await asOwner("/members");
      const ada = members.find(({ email }: { email: string }) => email === "ada@example.com");
      return ada.role === "developer";
    });
    await confirm("Remove", row("ada@example.com"));
    await row("ada@example.com").waitFor({ state: "detached" });
    await page.reload();
    await page.waitForURL(/\/(dev\/)?login/);
    await page.context().close();
  });

  test("a device is signed in with the code it shows, or turned away", async () => {
    for (const [decision, status] of [
      ["Approve", 200],
      ["Deny", 400],
    ] as const) {
      const { body } = await own.api("/auth/device/start", { method: "POST", key: "" });
      await owner.goto(body.verification_uri);
      await owner.getByLabel("Code").fill(body.user_code);
      await press("Go on");
      await owner.getByText(body.user_code).waitFor();
      await picture(owner, "device");
      await checkAccess(owner, "a device");
      await press(decision);
      const word = decision === "Deny" ? "Denied" : "Approved";
      await owner.getByRole("heading", { name: word }).waitFor();
      const token = await own.api("/auth/device/token", {
        method: "POST",
        key: "",
        body: JSON.stringify({ device_code: body.device_code }),
      });
      assert.equal(token.status, status, JSON.stringify(token.body));
    }
  });

  test("the audit log is read, filtered and verified", async () => {
    await open("/settings/audit");
    await press("Verify the chain");
    await owner.getByText(/\d+ entries are as they were written/).waitFor();
    await row("audit.verify").first().waitFor();
    await owner.getByLabel("Action").fill("secret.set");
    await row("API_TOKEN").first().waitFor();
    await row("audit.verify").first().waitFor({ state: "detached" });
    await picture(owner, "audit-verified");
  });

  test("a viewer and a developer are offered what they may do, and are refused the rest", async () => {
    /* A page, what is there once it is whole, and what is not. */
    const pages = [
      [`/sessions/${session}`, "Run 1 begins", ["Send", "Close", "Cancel"]],
      [
        `/workspaces/${workspace}`,
        "notes/",
        ["Upload", "New folder", "Rename", "Delete", "Branch", "Archive", "Start"],
      ],
      [`/workspaces/${workspace}?tab=Versions`, "current", ["Restore", "Branch"]],
      [`/workspaces/${workspace}?tab=Commands`, "exited", ["Run"]],
      [`/workspaces/${workspace}?tab=Terminal`, "No terminal is open", ["New terminal"]],
      ["/workspaces", "talking", ["Create"]],
      ["/tasks/orders", "Newest runs", ["Start a run"]],
      [`/deployments/${deployment}`, "seal", ["Promote", "Cancel the build"]],
      ["/schedules", "Nothing starts by itself here", ["Create", "Edit", "Delete"]],
      ["/settings/workers", "engines can be used", ["Drain", "Disable", "Pause"]],
    ] as const;
    const viewer = await joined("viewer@example.com", "viewer");
    for (const [path, text, names] of pages) {
      await open(path, viewer);
      await viewer.locator("main").getByText(text).first().waitFor();
      for (const name of names) {
        const found = viewer.getByRole("button", { name, exact: true });
        assert.equal(await found.count(), 0, `${name} on ${path}`);
      }
    }
    const developer = await joined("developer@example.com", "developer");
    await open(`/workspaces/${workspace}`, developer);
    await developer.getByRole("button", { name: "Upload", exact: true }).waitFor();
    await open("/settings/workers", developer);
    await developer.getByText("first", { exact: false }).first().waitFor();
    assert.equal(await developer.getByRole("button", { name: "Drain" }).count(), 0);
    for (const page of [viewer, developer])
      for (const name of ["Secrets", "API keys", "Members", "Projects", "Environments", "Audit log"])
        assert.equal(await page.getByRole("link", { name, exact: true }).count(), 0, name);
    const [{ id: worker }] = (await asOwner("/workers")).workers;
    const status = (page: Page, method: string, path: string, body = "{}"): Promise<number> =>
      page.evaluate(
        `fetch("/api${path}", { method: "${method}", body: '${body}' }).then(({ status }) => status)`,
      );
    const forBoth = [
      ["POST", `/workers/${worker}/drain`],
      ["POST", "/audit/verify"],
      ["PUT", "/secrets/MINE", '{"value":"x"}'],
      ["POST", "/api-keys", '{"name":"x","permissions":[{"scopes":["runs:read"]}]}'],
      ["POST", "/invitations", '{"email":"x@example.com","role":"viewer"}'],
      ["POST", "/projects", '{"name":"x"}'],
    ] as const;
    for (const [method, path, body] of forBoth)
      for (const page of [viewer, developer])
        assert.equal(await status(page, method, path, body), 403, path);
    for (const [method, path, body] of [
      ["POST", "/runs", '{"task_id":"talk"}'],
      ["POST", `/sessions/${session}/inputs/questions`, '{"data":1}'],
      ["POST", `/workspaces/${workspace}/pty`],
      ["POST", `/deployments/${deployment}/promote`],
      ["POST", "/schedules", '{"deduplication_key":"x","task":"talk","cron":"0 0 * * *"}'],
    ] as const)
      assert.equal(await status(viewer, method, path, body), 403, path);
    for (const page of [viewer, developer]) await page.context().close();
  });

  test("a request that another site makes is refused", async () => {
    const { page } = await visit(browser, own.place.url);
    const cookies = await page.context().cookies();
    const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
    for (const origin of ["https://elsewhere.example", "null"]) {
      const refused = await own.api("/secrets/CROSS", {
        method: "PUT",
        key: "",
        headers: { cookie, origin },
        body: '{"value":"x"}',
      });
      assert.equal(refused.status, 403, origin);
    }
    for (const one of cookies) assert.deepEqual([one.httpOnly, one.sameSite], [true, "Lax"]);
    for (const path of ["/login", "/invite?token=x", "/auth/device", "/sessions"]) {
      const headers = (await page.request.get(own.place.url + path)).headers();
      assert.match(headers["content-security-policy"] ?? "", /frame-ancestors 'none'/, path);
      assert.doesNotMatch(headers["content-security-policy"] ?? "", /script-src[^;]*unsafe/, path);
    }
    await page.context().close();
  });

  test("every page of these, in both themes and on a phone, is accessible and without a fault", async () => {
    const tags = texts.map((text) => text.slice(0, 60));
    await own.client.workspaces.update(workspace, { tags: tags.slice(0, 10) });
    const [odd] = await own.client.workspaces.open(workspace).files.list("odd");
    const pages = {
      session: `/sessions/${session}`,
      files: `/workspaces/${workspace}?folder=odd&file=${encodeURIComponent(odd?.path ?? "")}`,
      versions: `/workspaces/${workspace}?tab=Versions`,
      changes: `/workspaces/${workspace}?tab=Changes`,
      commands: `/workspaces/${workspace}?tab=Commands`,
      workspaces: "/workspaces",
      tasks: "/tasks",
      task: "/tasks/orders",
      deployments: "/deployments",
      deployment: `/deployments/${deployment}`,
      schedules: "/schedules",
      workers: "/settings/workers",
      secrets: "/settings/secrets",
      keys: "/settings/api-keys",
      members: "/settings/members",
      projects: "/settings/projects",
      environments: "/settings/environments",
      audit: "/settings/audit",
    };
    const looks = {
      light: { ...desk, colorScheme: "light" as const },
      dark: { ...desk, colorScheme: "dark" as const },
      phone: { ...phone, colorScheme: "dark" as const },
    };
    for (const [look, options] of Object.entries(looks)) {
      const { page, faults, strays } = await visit(browser, own.place.url, options);
      for (const [name, path] of Object.entries(pages)) {
        await open(path, page);
        await settled(page);
        /* A theme changes colours only, and a phone's shape neither names nor roles. */
        if (look === "light") await checkAccess(page, path);
        if (look === "dark") await checkAccess(page, `${path} (dark)`, ["color-contrast"]);
        await picture(page, `pages-${name}-${look}`);
        const beyond = await page.evaluate(
          "document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        assert.equal(beyond, 0, `${path} is wider than a ${look} screen`);
        assert.equal(await page.evaluate("window.hit"), undefined, path);
        assert.equal(await page.locator(foreign).count(), 0, path);
      }
      assert.deepEqual([faults, strays], [[], []], look);
      await page.context().close();
    }
  });

  test("a worker is drained and takes work again, and so is its group", async () => {
    await open("/settings/workers");
    const card = owner.getByRole("article", { name: "first" });
    await card.getByText(/engines can be used/).click();
    await picture(owner, "worker-checks");
    await confirm("Drain", card);
    await card.getByText(/drain(ing|ed)/).waitFor();
    await press("Take work again", card);
    await card.getByText("active", { exact: true }).waitFor();
    const group = owner.getByRole("listitem").filter({ hasText: "default" });
    await confirm("Pause", group);
    await press("Go on", group);
    await group.getByText("active", { exact: true }).waitFor();
    /* What the server refused above is in the browser's log, too. */
    const others = ownerFaults.filter((fault) => !fault.includes("the server responded with"));
    assert.deepEqual(others, []);
  });
});
