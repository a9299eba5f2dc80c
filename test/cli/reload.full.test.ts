import { once } from 'node:events'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { Agent, createServer, type IncomingMessage, request, type Server } from 'node:http'
import { connect } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { KEY, started } from '../capabilities/site-file/site-kit.js'
import { SluiceProcess } from './process.js'

/** What saving a file is promised to take at most. Milliseconds. */
const PROMISED = 1_000

/** A server that says its name, echoes WebSockets and answers /slow when it is told to. */
async function backend(t: Test, name: string) {
  const slow: (() => void)[] = []
  const server: Server = createServer((incoming, response) => {
    if (incoming.url !== '/slow') return response.end(name)
    response.write('begun ')
    slow.push(() => response.end(`by ${name}`))
    return undefined
  })
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket) => socket.on('message', (data) => socket.send(`${name}: ${String(data)}`)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, release: () => slow.splice(0).forEach((end) => void end()) }
}

/** One connection that is kept: asks over and over on the same socket. */
function kept(t: Test, url: string, host = 'app.test') {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const ports = new Set<number>()
  const ask = async (path = '/') => {
    const sent = request(new URL(path, url), { agent, headers: { host } })
    sent.end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    ports.add(sent.socket?.localPort ?? 0)
    let text = ''
    for await (const part of response.setEncoding('utf8')) text += part
    return { status: response.statusCode, text }
  }
  return { ask, ports }
}

/** Asks until the answer is another one; fails when a request fails, or when that takes longer than is promised. */
async function takesEffect<A>(
  t: Test,
  ask: () => Promise<A>,
  isNew: (answer: A) => boolean,
  isOld: (answer: A) => boolean
) {
  const saved = performance.now()
  for (;;) {
    const answer = await ask()
    const took = performance.now() - saved
    if (isNew(answer)) {
      t.ok(took <= PROMISED, `it took ${Math.round(took)} ms`)
      return
    }
    if (!isOld(answer) || took > 10 * PROMISED) {
      t.fail(`${JSON.stringify(answer)} after ${Math.round(took)} ms`)
      return
    }
  }
}

const sites = (url: string) => `sites: { app.test: ${url} }\n`

t.test('saving a site file drops nothing that is under way, on any kind of connection', async (t) => {
  const [one, two] = [await backend(t, 'one'), await backend(t, 'two')]
  const cwd = t.testdir({ 'sites.yaml': sites(one.url) })
  const sluice = await started(t, cwd, {}, 'sites.yaml')
  const { ask, ports } = kept(t, sluice.traffic)
  t.same(await ask(), { status: 200, text: 'one' })
  const session = connect(sluice.traffic)
  t.teardown(() => session.destroy())
  const over2 = async () => {
    const stream = session.request({ ':path': '/', ':authority': 'app.test' })
    let text = ''
    for await (const part of stream.setEncoding('utf8')) text += part
    return text
  }
  t.equal(await over2(), 'one')
  const socket = new WebSocket(sluice.traffic.replace('http', 'ws'), { headers: { host: 'app.test' } })
  t.teardown(() => socket.terminate())
  await once(socket, 'open')
  const said = async (text: string) => {
    const answered = once(socket, 'message')
    socket.send(text)
    return String((await answered)[0])
  }
  t.equal(await said('a'), 'one: a')
  const long = request(new URL('/slow', sluice.traffic), { headers: { host: 'app.test' }, agent: false })
  long.end()
  const [begun] = (await once(long, 'response')) as [IncomingMessage]
  await writeFile(join(cwd, 'sites.yaml'), sites(two.url))
  await takesEffect(
    t,
    ask,
    ({ text }) => text === 'two',
    ({ text }) => text === 'one'
  )
  t.match(await sluice.process.logged('reloaded'), { changed: ['app.test'] }, 'it is said what changed')
  t.equal(await over2(), 'two', 'the same session')
  t.equal(ports.size, 1, 'the same connection')
  t.equal(await said('b'), 'one: b', 'a WebSocket stays where it is')
  one.release()
  let text = ''
  for await (const part of begun.setEncoding('utf8')) text += part
  t.equal(text, 'begun by one', 'an answer that had begun is finished')
  await writeFile(join(cwd, 'sites.yaml'), 'sites: { app.test: { bakcend: web } }\n')
  await sluice.process.told('sites.yaml:1:')
  t.match(await sluice.process.logged('reload failed'), { errors: Number })
  t.same(await ask(), { status: 200, text: 'two' })
  t.equal(await over2(), 'two')
})

t.test('saved by rename, by a link that moves, and gone for a while', async (t) => {
  const [one, two] = [await backend(t, 'one'), await backend(t, 'two')]
  const cwd = t.testdir()
  // As orchestrators mount configuration: a link to a link to a folder, which is moved.
  for (const [name, { url }] of [
    ['1', one],
    ['2', two]
  ] as const) {
    await mkdir(join(cwd, name))
    await writeFile(join(cwd, name, 'sites.yaml'), sites(url))
  }
  await symlink('1', join(cwd, 'data-now'))
  await symlink('data-now/sites.yaml', join(cwd, 'sites.yaml'))
  const sluice = await started(t, cwd, {}, 'sites.yaml')
  const { ask } = kept(t, sluice.traffic)
  t.same(await ask(), { status: 200, text: 'one' })
  await symlink('2', join(cwd, 'next'))
  await rename(join(cwd, 'next'), join(cwd, 'data-now'))
  await takesEffect(
    t,
    ask,
    ({ text }) => text === 'two',
    ({ text }) => text === 'one'
  )
  await rm(join(cwd, 'sites.yaml'))
  await sluice.process.logged('a configuration file cannot be read any more')
  t.same(await ask(), { status: 200, text: 'two' }, 'its last contents stay')
  await writeFile(join(cwd, 'new'), sites(one.url))
  await rename(join(cwd, 'new'), join(cwd, 'sites.yaml'))
  await takesEffect(
    t,
    ask,
    ({ text }) => text === 'one',
    ({ text }) => text === 'two'
  )
})

t.test(
  'options of traffic apply when their file is saved; the others say that they wait for the next start',
  async (t) => {
    const [one, two] = [await backend(t, 'one'), await backend(t, 'two')]
    const cwd = t.testdir({ 'deny.yaml': 'on_http_request: [{ actions: [{ type: deny }] }]\n' })
    const file = (...lines: string[]) =>
      writeFile(
        join(cwd, 'options.yaml'),
        ['listen: 127.0.0.1:0', 'api: { listen: 127.0.0.1:0 }', 'data: ":memory:"', ...lines, ''].join('\n')
      )
    await file(`upstream: ${one.url}`)
    const process = new SluiceProcess(t, ['start', '--config', 'options.yaml'], { cwd, env: { SLUICE_API_KEY: KEY } })
    const { traffic } = (await process.logged('listening')) as { traffic: string }
    const { ask, ports } = kept(t, traffic)
    t.same(await ask(), { status: 200, text: 'one' })
    await file(`upstream: ${two.url}`)
    await takesEffect(
      t,
      ask,
      ({ text }) => text === 'two',
      ({ text }) => text === 'one'
    )
    const long = () => ask(`/${'x'.repeat(300)}`)
    await file(`upstream: ${two.url}`, 'limits: { target_bytes: 256 }')
    await takesEffect(
      t,
      long,
      ({ status }) => status === 414,
      ({ status }) => status === 200
    )
    const late = () => ask('/slow')
    const hanging = createServer(() => undefined).listen(0, '127.0.0.1')
    await once(hanging, 'listening')
    t.teardown(() => {
      hanging.closeAllConnections()
      hanging.close()
    })
    const mute = `upstream: http://127.0.0.1:${(hanging.address() as AddressInfo).port}`
    await file(mute, 'timeouts: { response: 100ms }')
    await process.logged('reloaded', 3)
    t.equal((await late()).status, 504, 'time-outs')
    await file(`upstream: ${two.url}`, 'policy: deny.yaml')
    await takesEffect(
      t,
      ask,
      ({ status }) => status === 403,
      ({ status }) => status === 200 || status === 504
    )
    await writeFile(
      join(cwd, 'deny.yaml'),
      'on_http_request: [{ actions: [{ type: deny, config: { status_code: 410 } }] }]\n'
    )
    await takesEffect(
      t,
      ask,
      ({ status }) => status === 410,
      ({ status }) => status === 403
    )
    await file(`upstream: ${one.url}`, 'zone: other.test', 'limiter: { budget: 2MiB }')
    for (const [nth, option] of ['zone', 'limiter.budget'].entries()) {
      const line = await process.logged(
        'this option cannot be reloaded; the change takes effect at the next start',
        nth + 1
      )
      t.equal(line.option, option)
    }
    await takesEffect(
      t,
      ask,
      ({ text }) => text === 'one',
      ({ status }) => status === 410
    )
    t.ok(ports.size <= 4, 'connections stay but for those that an answer has ended')
  }
)
