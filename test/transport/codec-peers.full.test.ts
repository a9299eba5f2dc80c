import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { corpus } from '../fixtures/wire/corpus.js'
import { accepts } from '../helpers/peer-program.js'
import { startSluice } from '../helpers/sluice.js'
import { type Message, readRequest } from '../wire/message.js'
import { RawClient, turn, Upstream } from '../wire/peers.js'
import { readByNode } from './codec-messages.js'

/**
 * What the codec sends on for each accepted message of the corpus is one request, and the same one, for the readers that
 * stand behind proxies: llhttp, nginx, HAProxy.
 */
const LONG = process.env.SLUICE_TEST_LONG === '1'
const AFTER = 'GET /after HTTP/1.1\r\nHost: after.test\r\n\r\n'

interface Forwarded {
  readonly name: string
  readonly bytes: string
  readonly message: Message
}

/** One request as some reader understood it. */
type Seen = readonly [line: string, body: string]

/** Sends every accepted message through the product; gives the bytes that reached the upstream. */
async function forwardedOf(t: Test): Promise<Forwarded[]> {
  const got: { bytes: string; message: Message }[] = []
  const server = createServer({ noDelay: true }, (socket) => {
    let text = ''
    let at = 0
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (/\r\nexpect:/i.test(text.slice(at))) socket.write('HTTP/1.1 100 Continue\r\n\r\n')
      for (let message = readRequest(text, at); message !== undefined; message = readRequest(text, at)) {
        got.push({ bytes: text.slice(at, message.end), message })
        at = message.end
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${message.line.startsWith('HEAD ') ? 0 : 2}\r\n\r\n`)
        if (!message.line.startsWith('HEAD ')) socket.write('ok')
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const sluice = await startSluice(t, { engine: 'codec', upstream: { port }, options: { ACCESS_LOG: 'off' } })
  const all: Forwarded[] = []
  for (const { name, bytes, answers, upstream } of Object.values(corpus).flat()) {
    if (upstream.length === 0) continue
    const client = await RawClient.open(sluice.port)
    client.methods = upstream.map(({ line }) => line.split(' ')[0] as string)
    client.write(bytes)
    await client.until(() => client.closed || client.answers.length >= answers.length)
    client.close()
    all.push(...got.splice(0).map((one) => ({ ...one, name })))
  }
  await sluice.stop()
  return all
}

/** What a real reader is asked: the requests before AFTER, or 'refused'. */
type Peer = (bytes: string) => Promise<readonly Seen[] | 'refused'>

const llhttp: Peer = async (bytes) => {
  const messages = await readByNode(Buffer.from(bytes + AFTER, 'latin1'))
  if (messages.at(-1)?.target !== '/after') return 'refused'
  return messages.slice(0, -1).map(({ method, target, body }) => [`${method} ${target}`, body] as const)
}

/** A proxy program in front of a strict upstream that records what it is given. */
function behind(port: number, upstream: Upstream): Peer {
  return async (bytes) => {
    upstream.reset()
    const client = await RawClient.open(port)
    client.write(bytes + AFTER)
    const ended = (): boolean => client.closed || upstream.requests.some(({ line }) => line.includes(' /after '))
    await Promise.race([upstream.until(ended), client.until(ended, 3_000)])
    await turn(2)
    client.close()
    const lines = upstream.requests.map(({ line, body }): Seen => [line.slice(0, line.lastIndexOf(' ')), body])
    if (lines.at(-1)?.[0] !== 'GET /after') return lines.length === 0 ? 'refused' : lines
    return lines.slice(0, -1)
  }
}

/** Starts a Debian program on a configuration; undefined when the machine lacks it. */
async function program(
  t: Test,
  command: string,
  configure: (port: number, upstream: number, folder: string) => string,
  args: (file: string, folder: string) => string[]
): Promise<Peer | undefined> {
  const path = `/usr/sbin/${command}`
  try {
    execFileSync(path, ['-v'], { stdio: 'ignore' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
  const upstream = await Upstream.start(t)
  const folder = await mkdtemp(join(tmpdir(), `sluice-${command}-`))
  const port = await freePort()
  const file = join(folder, 'conf')
  await writeFile(file, configure(port, upstream.port, folder))
  const child = spawn(path, args(file, folder), { stdio: 'ignore' })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await exited
    await rm(folder, { recursive: true, force: true })
  })
  while (child.exitCode === null && !(await accepts(port))) await new Promise((resolve) => setTimeout(resolve, 20))
  return behind(port, upstream)
}

const nginxConf = (port: number, upstream: number, folder: string): string => `
daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log crit;
events { worker_connections 256; }
http {
  access_log off; client_max_body_size 0; large_client_header_buffers 8 256k; client_body_buffer_size 2m;
  client_body_temp_path ${folder}/a; proxy_temp_path ${folder}/b; fastcgi_temp_path ${folder}/c;
  uwsgi_temp_path ${folder}/d; scgi_temp_path ${folder}/e;
  server { listen 127.0.0.1:${port}; location / { proxy_pass http://127.0.0.1:${upstream}; proxy_http_version 1.1; } }
}`

const haproxyConf = (port: number, upstream: number): string => `
global
  nbthread 1
  tune.bufsize 262144
  tune.http.maxhdr 400
defaults
  mode http
  timeout client 3s
  timeout server 3s
  timeout connect 3s
frontend in
  bind 127.0.0.1:${port}
  default_backend out
backend out
  server one 127.0.0.1:${upstream}
`

/** What a program may refuse as a whole, by the line of the request or the name of the case; it must not misread it. */
const MAY_REFUSE: Readonly<Record<string, RegExp>> = {
  // It has a list of methods.
  llhttp: /^method /,
  // Its methods are of capitals, `_` and `-`.
  nginx: /^(?:OPTIONS \*$|target \/%00$|method .*[^A-Z_-])/,
  haproxy: /^a name of 1,000 characters$/
}

const forwarded = await forwardedOf(t)
const peers: Readonly<Record<string, Peer | undefined>> = {
  llhttp,
  nginx: await program(t, 'nginx', nginxConf, (file, folder) => ['-p', folder, '-c', file]),
  haproxy: await program(t, 'haproxy', haproxyConf, (file) => ['-db', '-f', file])
}

t.ok(forwarded.length > 50, `${forwarded.length} requests were sent on`)

for (const [name, peer] of Object.entries(peers)) {
  if (peer === undefined) {
    if (LONG) t.fail(`${name} is not installed`)
    else t.test(`${name} is not installed`, { skip: true }, () => undefined)
    continue
  }
  t.test(`${name} reads the same single request`, async (t) => {
    for (const { name: which, bytes, message } of forwarded) {
      // What follows a switch of protocols is no request.
      if (/\r\nupgrade:/i.test(bytes)) continue
      const line = message.line.slice(0, message.line.lastIndexOf(' '))
      const seen = await peer(bytes)
      const may = MAY_REFUSE[name]
      if (seen === 'refused' && (may?.test(line) === true || may?.test(which) === true)) continue
      t.same(seen, [[line, message.body]], which)
    }
  })
}

t.test('a second request is told from the first', async (t) => {
  t.same(await llhttp(`${AFTER}${AFTER}`), [
    ['GET /after', ''],
    ['GET /after', '']
  ])
})

async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
