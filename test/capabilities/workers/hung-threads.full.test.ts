import { once } from 'node:events'
import type { Worker } from 'node:worker_threads'
import t from 'tap'
import { hangThreads } from '../../helpers/hung-thread.js'
import { startSluice, THREADS_SERVE } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'

const options = THREADS_SERVE ? {} : { skip: 'Node older than 24 gives no socket to another thread' }
const OK = 'on_http_request: [{ actions: [{ type: custom-response, config: { status_code: 200, body: "ok" } }] }]\n'
const SILENCE = 2_000

t.test('a thread whose event loop stands still gets no new connection, is told of and replaced', options, async (t) => {
  const workers: Worker[] = []
  const begun = (worker: Worker) => void workers.push(worker)
  process.on('worker', begun)
  t.teardown(() => void process.off('worker', begun))
  const setup = { policy: OK, upstream: { port: 9 }, threads: 2, options: { WORKER_SILENCE: `${SILENCE}ms` } }
  const sluice = await startSluice(t, setup)
  const readiness = async () =>
    (await (await fetch(`http://127.0.0.1:${sluice.apiPort}/readyz`)).json()) as { readonly status: string }
  /** Status of a request on a connection of its own. */
  const visit = async () => {
    const signal = AbortSignal.timeout(20_000)
    return (await fetch(`http://127.0.0.1:${sluice.port}/`, { headers: { connection: 'close' }, signal })).status
  }
  t.match(await readiness(), { status: 'ready' })
  t.equal(await visit(), 200)
  const ended = once(await hangThreads(workers), 'exit')
  // A fifth of its time, and some looks.
  await new Promise((resolve) => setTimeout(resolve, SILENCE / 2))
  for (let i = 0; i < 10; i++) t.equal(await visit(), 200, 'another thread serves')
  const line = await sluice.line(({ msg }) => /thread that carries traffic hangs/.test(String(msg)))
  t.match(line, { level: 50, silence: SILENCE })
  t.match(await readiness(), { status: 'degraded', reasons: ['workers_missing'] })
  await ended
  await until(async () => (await readiness()).status === 'ready')
  for (let i = 0; i < 4; i++) t.equal(await visit(), 200)
})

t.test('a hung thread without a successor: connections wait for the one that replaces it', options, async (t) => {
  const workers: Worker[] = []
  const begun = (worker: Worker) => void workers.push(worker)
  process.on('worker', begun)
  t.teardown(() => void process.off('worker', begun))
  const setup = { policy: OK, upstream: { port: 9 }, threads: 1, options: { WORKER_SILENCE: `${SILENCE}ms` } }
  const sluice = await startSluice(t, setup)
  await hangThreads(workers)
  await new Promise((resolve) => setTimeout(resolve, SILENCE / 2))
  const signal = AbortSignal.timeout(20_000)
  t.equal((await fetch(`http://127.0.0.1:${sluice.port}/`, { signal })).status, 200)
})
