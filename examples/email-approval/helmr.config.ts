import { defineConfig } from "@helmr/sdk";

export default defineConfig({
  project: "email-approval",
  dirs: ["./tasks"],
});
