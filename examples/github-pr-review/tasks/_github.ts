// What the task needs of the remote API, and a stand-in that answers like it inside the sandbox, so
// that the example runs without an account and without a network.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface Comment {
  readonly body: string;
}

export class GitHub {
  readonly #url: string;
  readonly #path: string;

  constructor(url: string, owner: string, repo: string) {
    this.#url = url;
    this.#path = `/repos/${owner}/${repo}`;
  }

  async #ask(method: string, path: string, body?: unknown): Promise<any> {
    const answer = await fetch(`${this.#url}${this.#path}${path}`, {
      method,
      headers: { accept: "application/vnd.github+json", "user-agent": "helmr-example" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  files = (pr: number): Promise<{ filename: string; patch?: string }[]> =>
    this.#ask("GET", `/pulls/${pr}/files`);

  comments = (pr: number): Promise<Comment[]> => this.#ask("GET", `/issues/${pr}/comments`);

  comment = (pr: number, body: string): Promise<Comment> =>
    this.#ask("POST", `/issues/${pr}/comments`, { body });
}

const files = [
  { filename: "src/sum.ts", patch: "+export const sum = (a: any, b: any) => a + b;" },
  { filename: "README.md", patch: "+How to add numbers." },
];

/** Its address; it lives as long as the run. */
export async function startStandIn(): Promise<string> {
  const comments: Comment[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    if (request.method === "POST") comments.push(JSON.parse(text));
    const isFiles = request.url?.endsWith("/files");
    const answer = request.method === "POST" ? comments.at(-1) : isFiles ? files : comments;
    response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
