import { image, sandbox, schedules } from "@helmr/sdk";
import { writeFile } from "node:fs/promises";

const day = (date: Date): string => date.toISOString().slice(0, 10);

export const scheduledReport = schedules.task({
  id: "scheduled-report",
  sandbox: sandbox("scheduled-report").image(
    image("scheduled-report").from("node:24-bookworm-slim"),
  ),
  maxDuration: "1m",
  cron: { pattern: "30 8 * * MON-FRI", timezone: "Europe/Berlin" },
  // The time that was meant: a report that starts late is still that of its own day.
  run: async ({ timestamp, lastTimestamp, upcoming }) => {
    const since = lastTimestamp ? `since ${day(lastTimestamp)}` : "the first one";
    const report = `report of ${day(timestamp)}, ${since}`;
    console.log(report);
    await writeFile("report.txt", `${report}\n`);
    return { report, next: upcoming[0] && day(upcoming[0]) };
  },
});
