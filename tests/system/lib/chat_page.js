// One side of a chat, as a page has it: nothing but two public access tokens. Also runs in Node.

/** Tried again while the server is away: the key makes one message of however many tries. */
async function send(input, message, publicAccessToken) {
  for (;;)
    try {
      const idempotencyKey = `message-${message.n}`;
      return await input.send(message, { idempotencyKey, publicAccessToken });
    } catch (error) {
      if (!(error instanceof TypeError) && !(error.status >= 500)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
}

export default async ({ HelmrClient }, { url, session, sendToken, readToken, turns }) => {
  const handle = new HelmrClient({ url }).sessions.open(session);
  const input = handle.input("messages");
  const answers = handle.output("answers").subscribe({ publicAccessToken: readToken });
  const heard = [];
  for (let n = 1; n <= turns; n++) {
    const { sequence } = await send(input, { n, text: `message ${n}` }, sendToken);
    const { value } = await answers.next();
    heard.push({ sent: sequence, sequence: value.sequence, ...value.data });
  }
  await answers.return();
  return heard;
};
