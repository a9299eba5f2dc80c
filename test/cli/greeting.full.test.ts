import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { lacks } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { freePort } from '../proxy/free-port.js'
import { inheritedEnvironment, SHARES_LISTENERS } from './process.js'

const MAIN = join(process.cwd(), 'dist-test', 'src', 'main.js')
const run = promisify(execFile)

interface AtTerminal {
  readonly shown: string
  stop(): Promise<void>
}

/** Starts the site file at a terminal, until the start has shown all of its lines. */
async function startAtTerminal(t: Test, cwd: string, words: readonly string[] = []): Promise<AtTerminal> {
  const command = [process.execPath, MAIN, 'start', 'sites.yaml', '--api', '127.0.0.1:0', ...words].join(' ')
  const child = spawn('script', ['-qec', command, '/dev/null'], { cwd, env: inheritedEnvironment() })
  let shown = ''
  child.stdout.on('data', (piece) => {
    shown += piece
  })
  const ended = once(child, 'close')
  const stop = async () => {
    if (child.exitCode === null) child.stdin.write('\x03')
    await ended
  }
  t.teardown(stop)
  await until(() => shown.includes('Ctrl-C stops it.') || child.exitCode !== null)
  return { shown, stop }
}

const TRY = /Try it: (curl .*?)\r?\n/

t.test(
  'each listener has a line, and the command that is shown is answered by the first site',
  { skip: lacks('script', ['--version']) },
  async (t) => {
    const upstream = createServer((_request, response) => response.end('your service'))
    upstream.listen(0, '127.0.0.1')
    await once(upstream, 'listening')
    t.teardown(() => upstream.close())
    const { port: to } = upstream.address() as AddressInfo
    const [plain, other] = [await freePort(), await freePort()]
    const cases = [
      `listeners: [http://127.0.0.1:${plain}, https://0.0.0.0:${other}]\nsites: { shop.example.com: "http://127.0.0.1:${to}" }\n`,
      `listeners: [http://127.0.0.1:${plain}, http://127.0.0.1:${other}]\nsites:\n  "shop.example.com:${other}": { routes: { /api/: "http://127.0.0.1:${to}" } }\n`,
      `listeners: [https://127.0.0.1:${plain}, http://127.0.0.1:${other}]\nsites:\n  localhost: { backend: "http://127.0.0.1:${to}" }\n`
    ]
    for (const text of cases) {
      const { shown, stop } = await startAtTerminal(t, t.testdir({ 'sites.yaml': text }))
      for (const port of [plain, other]) t.match(shown, new RegExp(`traffic  https?://127\\.0\\.0\\.1:${port} `), text)
      const command = TRY.exec(shown)?.[1] ?? ''
      const { stdout } = await run('bash', ['-c', command])
      t.match(stdout, /^HTTP\/\S+ 200 [\s\S]*your service$/, command)
      t.match(shown, /API key {2}sluice_\S+ {2}\(printed at each start until it is used, and in data\/api\.key\)/)
      await stop()
    }
  }
)

t.test('worker threads are named', { skip: lacks('script', ['--version']) }, async (t) => {
  if (!SHARES_LISTENERS) return t.comment('worker threads need Node 24')
  const sites = `listeners: [${await freePort()}]\nsites: { localhost: "http://127.0.0.1:1" }\n`
  const cwd = t.testdir({ 'sites.yaml': sites, 'o.yaml': 'workers: 2\n' })
  t.match((await startAtTerminal(t, cwd, ['--config', 'o.yaml'])).shown, /threads {2}2 worker threads carry traffic/)
})
