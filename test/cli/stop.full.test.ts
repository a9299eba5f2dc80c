import { once } from 'node:events'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { asker } from '../api/asking.js'
import { startHeldUpstream } from '../helpers/held-upstream.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { folder } from '../store/opened.js'
import { startPostgres, through } from '../store/postgres-server.js'
import { SluiceProcess } from './process.js'

const KEY = 'a-key-of-the-administrator'
const DRAIN = 1_000
/** Beside the drain, with room for a loaded machine. Milliseconds. */
const LONGEST = 8_000

async function start(t: Test, env: Record<string, string>, ports: { listen?: number; api?: number } = {}) {
  const { listen = 0, api = 0 } = ports
  const words = ['start', '--listen', `127.0.0.1:${listen}`, '--api', `127.0.0.1:${api}`]
  const fixed = { SLUICE_API_KEY: KEY, SLUICE_LIMITER_BUDGET: '64MiB' }
  const sluice = new SluiceProcess(t, words, { cwd: tmpdir(), env: { ...fixed, ...env } })
  const at = (await sluice.logged('listening')) as { traffic: string; api: string }
  const { hostname, port } = new URL(at.api)
  const ask = asker(hostname, Number(port))
  return { sluice, traffic: at.traffic, ask: (path: string, asked = {}) => ask(path, { key: KEY, ...asked }) }
}

async function stopped(sluice: SluiceProcess): Promise<number> {
  const begun = performance.now()
  sluice.child.kill('SIGTERM')
  t.equal((await sluice.ended()).code, 0)
  return performance.now() - begun
}

t.test('a stop has a deadline while the database is silent, whatever waits for it', async (t) => {
  const server = await startPostgres(t)
  const url = await server.database()
  const proxy = await startCuttingProxy(t, Number(new URL(url).port))
  const { sluice, ask } = await start(t, {
    SLUICE_STORE: through(url, proxy.port),
    SLUICE_DATA: join(await folder(t), 'data'),
    SLUICE_TIMEOUTS_DRAIN: `${DRAIN}ms`
  })
  const write = { method: 'POST', body: { address: '127.0.0.1:1' } }
  t.equal((await ask('/backends/static', write)).status, 201)
  proxy.silent = true
  const hanging = ask('/backends/static', write).then(
    ({ status }) => t.not(status, 201),
    () => t.pass('the connection of the call was cut')
  )
  // Answered after the write has come: it needs no database.
  t.equal((await ask('/healthz')).status, 200)
  const lasted = await stopped(sluice)
  t.ok(lasted < DRAIN + LONGEST, `it took ${lasted} ms`)
  await hanging
})

t.test('a successor on the same files and ports starts while connections end', async (t) => {
  const upstream = await startHeldUpstream(t)
  const ports = { listen: await freePort(), api: await freePort() }
  const env = {
    SLUICE_UPSTREAM: upstream.url,
    SLUICE_DATA: join(await folder(t), 'data'),
    SLUICE_TIMEOUTS_DRAIN: '60s'
  }
  const first = await start(t, env, ports)
  const made = await first.ask('/backends/static', { method: 'POST', body: { address: '127.0.0.1:1' } })
  t.equal(made.status, 201)
  // A connection that stays: it keeps the first process for as long as its drain lasts.
  const socket = connect(ports.listen, '127.0.0.1')
  t.teardown(() => socket.destroy())
  let got = ''
  socket.setEncoding('utf8').on('data', (piece: string) => {
    got += piece
  })
  socket.write('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n')
  await until(() => upstream.waiting.length === 1)
  first.sluice.child.kill('SIGTERM')
  await first.sluice.logged('stopping')
  await until(() => free(ports.listen).then(async (listen) => listen && (await free(ports.api))))
  const second = await start(t, env, ports)
  t.equal((await second.ask(`/backends/static/${made.json.id}`)).status, 200, 'it has the records')
  t.equal((await second.ask('/backends/static', { method: 'POST', body: { address: '127.0.0.1:2' } })).status, 201)
  t.equal(first.sluice.child.exitCode, null, 'the first one is still there')
  upstream.waiting[0]?.end('late')
  t.equal((await first.sluice.ended()).code, 0)
  t.match(got, /^HTTP\/1\.1 200 .*late$/s, 'and has finished what was under way')
})

/** Does nothing listen there? */
async function free(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return false
  } catch {
    return true
  } finally {
    socket.destroy()
  }
}

t.test('uncaught error is a line of the log, and what is under way is answered first', async (t) => {
  for (const how of ["throw new Error('of a part')", "Promise.reject(new Error('of a part'))"]) {
    const upstream = await startHeldUpstream(t)
    const port = await freePort()
    const failing = `data:text/javascript,process.on('SIGUSR2',()=>{${encodeURIComponent(how)}})`
    const product = new SluiceProcess(t, ['start'], {
      cwd: t.testdir(),
      env: {
        SLUICE_LISTEN: `127.0.0.1:${port}`,
        SLUICE_API_LISTEN: `127.0.0.1:${await freePort()}`,
        SLUICE_UPSTREAM: upstream.url,
        SLUICE_LIMITER_BUDGET: '64MiB',
        NODE_OPTIONS: `--import=${failing}`
      }
    })
    await product.logged('listening')
    const answer = fetch(`http://127.0.0.1:${port}/`)
    await until(() => upstream.waiting.length === 1)
    product.child.kill('SIGUSR2')
    const line = await product.logged('uncaught error: the process exits')
    t.match(line, { level: 60, err: { message: 'of a part' } })
    await product.logged('stopping: draining open connections')
    upstream.waiting[0]?.end('whole')
    t.equal(await (await answer).text(), 'whole')
    const { code, out } = await product.ended()
    t.equal(code, 1)
    t.match(out, /"ended":1,"cut":0,"msg":"stopped"/)
  }
})
