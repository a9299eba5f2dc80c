import { execFile, execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { httpProxyBack } from '../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../src/transport/http-proxy/server.js'
import { codecBack } from '../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../src/transport/http1/server.js'
import { fixture } from '../helpers/files.js'
import type { RawRequest, UpstreamPeer } from '../helpers/upstream.js'
import { type Bench, bench, type Make, NAME } from './suite/harness.js'

/** Clients of others: what they understand by HTTP/2 is what we mean. */
const LONG = process.env.SLUICE_TEST_LONG === '1'
const at = (name: string) => readFileSync(fixture(`engine/${name}`), 'utf8')
const h2 = { cert: at('upstream.crt'), key: at('upstream.key') }
const engines: Readonly<Record<string, Make>> = {
  codec: (parts) => ({ front: codecServerTransport(parts), back: codecBack(parts), h2 }),
  'node:http and http-proxy': (parts) => ({ front: nodeServerTransport(parts), back: httpProxyBack(parts), h2 })
}

const exec = promisify(execFile)
/** Both streams as one text; rejects when the tool fails or does not end. */
async function run(tool: string, args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await exec(tool, args, { timeout: 30_000, maxBuffer: 64 * 1024 * 1024 })
  return stdout + stderr
}

function missing(tool: string): string | false {
  try {
    execFileSync(tool, ['--version'], { stdio: 'ignore' })
    return false
  } catch (error) {
    if (LONG) throw error
    return `${tool} is not installed`
  }
}

const echo = ({ line, body }: RawRequest): string => {
  if (line.startsWith('HEAD')) return 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'
  const length = body.length.toString(16)
  if (line.startsWith('POST'))
    return `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${length}\r\n${body}\r\n0\r\nX-Sum: 9\r\n\r\n`
  return 'HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nok'
}

async function answer(peer: UpstreamPeer): Promise<void> {
  for (;;) {
    if (/\r\nexpect:/i.test(await peer.head())) peer.send('HTTP/1.1 100 Continue\r\n\r\n')
    peer.send(echo(await peer.request()))
  }
}

async function echoing(
  t: Test,
  make: Make
): Promise<Bench & { url: string; authority: string; file: string; size: number }> {
  const running = await bench(t, make, { script: answer })
  const folder = await mkdtemp(join(tmpdir(), 'http2-peers-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const [file, size] = [join(folder, 'body'), 300_000]
  await writeFile(file, 'b'.repeat(size))
  const authority = `${NAME}:${running.listening.address.port}`
  return Object.assign(running, { url: `https://127.0.0.1:${running.listening.address.port}/`, authority, file, size })
}

const requestsOf = ({ upstream }: Bench): RawRequest[] => upstream.peers.flatMap(({ requests }) => requests)

for (const [name, make] of Object.entries(engines)) {
  t.test(`${name}: curl`, { skip: missing('curl') }, async (t) => {
    const { authority, listening, file, size, exchanges, opened } = await echoing(t, make)
    const base = ['-sk', '--http2', '--resolve', `${authority}:127.0.0.1`, '-w', '\n%{http_version} %{http_code}']
    const url = `https://${authority}/a?b=c`
    t.match(await run('curl', [...base, '-i', url]), /^HTTP\/2 200 \r\nx-a: 1\r\n[\s\S]*\r\n\r\nok\n2 200$/)
    t.match(await run('curl', [...base, '-I', url]), /^HTTP\/2 200 \r\n[\s\S]*content-length: 9\r\n[\s\S]*\n2 200$/)
    const echoed = await run('curl', [...base, '--data-binary', `@${file}`, url])
    t.ok(echoed === `${'b'.repeat(size)}\n2 200`, `${echoed.length} bytes`)
    const open = await run('curl', [...base, '-T', file, '-X', 'POST', '-H', 'Expect: 100-continue', url])
    t.ok(open === `${'b'.repeat(size)}\n2 200`, `${open.length} bytes`)
    const parallel = Array.from({ length: 20 }, () => url)
    const many = await run('curl', [...base, '--parallel', ...parallel])
    t.equal(many.split('2 200').length, 21)
    t.ok(exchanges.every(({ request }) => request.version === '2' && request.authority === authority))
    t.ok(opened.every(({ tls }) => tls?.sni === NAME))
    t.match(await run('curl', [...base, '--http1.1', url]), /^ok\n1\.1 200$/, 'and HTTP/1.1 beside it')
    t.equal(listening.open, 0)
  })

  t.test(
    `${name}: curl gets an answer that comes before its upload has been sent`,
    {
      skip: missing('curl')
    },
    async (t) => {
      for (const answer of ['Connection: close\r\nContent-Length: 4\r\n\r\nstop', 'Content-Length: 0\r\n\r\n']) {
        const running = await bench(t, make, {
          async script(peer) {
            await peer.head()
            peer.socket.pause()
            peer.socket.write(`HTTP/1.1 413 No\r\n${answer}`, () => peer.socket.destroy())
          }
        })
        const folder = await mkdtemp(join(tmpdir(), 'http2-early-'))
        t.teardown(() => rm(folder, { recursive: true }))
        const file = join(folder, 'body')
        await writeFile(file, 'b'.repeat(8_000_000))
        const authority = `${NAME}:${running.listening.address.port}`
        const base = ['-sk', '--http2', '--resolve', `${authority}:127.0.0.1`, '-w', '\n%{http_version} %{http_code}']
        for (const how of [
          ['--data-binary', `@${file}`],
          ['-T', file],
          ['-T', '-', '-X', 'POST']
        ]) {
          const sent = exec('curl', [...base, '-H', 'Expect:', ...how, `https://${authority}/`], { timeout: 30_000 })
          if (how[1] === '-') sent.child.stdin?.on('error', () => undefined).end('b'.repeat(8_000_000))
          const { stdout } = await sent
          t.match(stdout, /^(stop)?\n2 413$/, how.join(' '))
        }
      }
    }
  )

  t.test(`${name}: nghttp`, { skip: missing('nghttp') }, async (t) => {
    const running = await echoing(t, make)
    const { url, file, size, exchanges } = running
    const seen = await run('nghttp', ['-v', url, '-H', ':authority: app.test'])
    t.match(seen, /recv \(stream_id=\d+\) :status: 200/)
    t.match(seen, /recv \(stream_id=\d+\) x-a: 1/)
    t.match(seen, /SETTINGS_ENABLE_CONNECT_PROTOCOL\(0x08\):1/)
    t.notMatch(seen, /RST_STREAM/)
    t.equal(exchanges[0]?.request.authority, 'app.test')
    const echoed = await run('nghttp', ['-v', '-n', '-d', file, '--no-content-length', '--trailer', 'x-up: 7', url])
    t.match(echoed, /recv \(stream_id=\d+\) x-sum: 9/, 'trailers down')
    t.notMatch(echoed, /RST_STREAM/)
    const last = requestsOf(running).at(-1)
    t.equal(last?.body.length, size)
    t.same(last?.trailers, [['x-up', '7']], 'and up')
    const sent = await run('nghttp', ['-n', '-s', '-m', '50', url])
    t.equal(sent.split(/ 200 +2 \//).length, 51, 'fifty at once')
  })

  t.test(`${name}: h2load`, { skip: missing('h2load') }, async (t) => {
    const running = await echoing(t, make)
    const report = await run('h2load', ['-n', '1000', '-c', '10', '-m', '20', running.url])
    t.match(report, 'Application protocol: h2')
    t.match(report, /1000 succeeded, 0 failed, 0 errored, 0 timeout/)
    const uploads = await run('h2load', ['-n', '50', '-c', '5', '-m', '5', '-d', running.file, running.url])
    t.match(uploads, /50 succeeded, 0 failed, 0 errored, 0 timeout/)
    await running.until(() => running.sent.length === 1050 && running.closed.length === 15)
    t.same(
      running.sent.filter(({ failure }) => failure !== undefined),
      []
    )
    t.same(running.refused, [])
  })
}
