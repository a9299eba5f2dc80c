/** `node healthcheck.mjs`: ends with 0 when the process of this container is ready for traffic (`GET /readyz`), and else with 1. */
const DEADLINE = 2_000

const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(process.env.SLUICE_API_LISTEN ?? '127.0.0.1:4040') ?? []
const here = host === '0.0.0.0' ? '127.0.0.1' : host === '[::]' ? '[::1]' : host
const answer = await fetch(`http://${here}:${port}/readyz`, { signal: AbortSignal.timeout(DEADLINE) }).catch(
  () => undefined
)
process.exit(answer?.status === 200 ? 0 : 1)
