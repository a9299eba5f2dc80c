import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'

const KEY = 'a-key-of-the-administrator'
/** Their lines, of some 2,000 bytes, are more than the memory that they may take here, and the pipe behind it. */
const REQUESTS = 1_000
const PATH = `/${'a'.repeat(1_700)}`
const AT_A_TIME = 20

/** The product with this standard output; its log cannot say where it listens, so the ports are chosen here. */
async function start(t: Test, output: number | 'pipe') {
  const origin = createServer((_request, response) => response.end('from upstream')).listen(0, '127.0.0.1')
  await once(origin, 'listening')
  t.teardown(() => {
    origin.closeAllConnections()
    origin.close()
  })
  const [port, api] = [await freePort(), await freePort()]
  const child = spawn(process.execPath, [join(process.cwd(), 'dist-test/src/main.js'), 'start'], {
    cwd: t.testdir(),
    stdio: ['ignore', output, 'ignore'],
    env: {
      PATH: process.env.PATH,
      SLUICE_LISTEN: `127.0.0.1:${port}`,
      SLUICE_API_LISTEN: `127.0.0.1:${api}`,
      SLUICE_UPSTREAM: `http://127.0.0.1:${(origin.address() as AddressInfo).port}`,
      SLUICE_API_KEY: KEY,
      SLUICE_DATA: ':memory:',
      SLUICE_LIMITER_BUDGET: '64MiB',
      SLUICE_LOG_BUFFER: '1MiB'
    }
  })
  const exit = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exit
  })
  const ask = (path: string) => fetch(`http://127.0.0.1:${api}${path}`, { headers: { authorization: `Bearer ${KEY}` } })
  await until(() =>
    ask('/healthz').then(
      ({ ok }) => ok,
      () => false
    )
  )
  return {
    child,
    exit,
    ask,
    async requests(): Promise<number[]> {
      const statuses: number[] = []
      const one = async () => {
        while (statuses.length < REQUESTS) {
          const place = statuses.push(0) - 1
          const answer = await fetch(`http://127.0.0.1:${port}${PATH}`)
          await answer.text()
          statuses[place] = answer.status
        }
      }
      await Promise.all(Array.from({ length: AT_A_TIME }, one))
      return statuses
    },
    async dropped(): Promise<number> {
      return Number(/^sluice_log_dropped_total (\d+)/m.exec(await (await ask('/metrics')).text())?.[1])
    },
    /** Milliseconds from the signal to the end, and the exit code. */
    async stop() {
      const begun = performance.now()
      child.kill('SIGTERM')
      const [code] = (await exit) as [number | null]
      return { code, lasted: performance.now() - begun }
    }
  }
}

t.test('a full disk below the log costs lines, no request and no stop', async (t) => {
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  const sluice = await start(t, full)
  t.ok((await sluice.requests()).every((status) => status === 200))
  t.equal((await sluice.ask('/healthz')).status, 200)
  t.ok((await sluice.dropped()) > 0, 'what was dropped is counted')
  const ready = await sluice.ask('/readyz')
  t.equal(ready.status, 200)
  t.same(await ready.json(), { status: 'degraded', reasons: ['log_dropping'], revisions_behind: 0 })
  const { code, lasted } = await sluice.stop()
  t.equal(code, 0)
  t.ok(lasted < 10_000, `it took ${lasted} ms`)
})

t.test('a pipe that is not read costs lines beyond the bound, and says so once it is read', async (t) => {
  const sluice = await start(t, 'pipe')
  t.ok((await sluice.requests()).every((status) => status === 200))
  const dropped = await sluice.dropped()
  t.ok(dropped > 0)
  let text = ''
  ;(sluice.child.stdout as Readable).setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  await until(() => text.includes('log output resumed'))
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
  t.match(
    lines.find(({ msg }) => String(msg).startsWith('log output resumed')),
    { level: 40, dropped, reason: 'EAGAIN' }
  )
  await until(async () => ((await (await sluice.ask('/readyz')).json()) as { status: string }).status === 'ready')
  t.equal(lines.filter(({ msg }) => msg === 'exchange').length + dropped, REQUESTS, 'every line is there or counted')
  t.equal((await sluice.stop()).code, 0)
})

t.test('a stop does not wait for a reader that takes nothing', async (t) => {
  const sluice = await start(t, 'pipe')
  await sluice.requests()
  const { code, lasted } = await sluice.stop()
  t.equal(code, 0)
  t.ok(lasted < 10_000, `it took ${lasted} ms`)
})
