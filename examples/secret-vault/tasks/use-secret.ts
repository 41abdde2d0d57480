import { image, sandbox, task } from "@helmr/sdk";

export const useSecret = task({
  id: "use-secret",
  sandbox: sandbox("secret-vault").image(image("secret-vault").from("node:24-bookworm-slim")),
  maxDuration: "1m",
  secrets: {
    API_TOKEN: { env: "API_TOKEN" },
  },
  run: async () => {
    const token = process.env.API_TOKEN ?? "";
    // What a task prints is searched for its secrets before it leaves the worker.
    console.log(`the token is ${token}`);
    return { isPresent: token !== "", length: token.length };
  },
});
