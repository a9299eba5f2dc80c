import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { broken, type Fault, type Outcome, type Stage, seconds } from './fault.js'
import { Product } from './product.js'

/** Of loopback, so that it disturbs no server of this machine. */
const SERVER = '127.0.13.53'
const HANGING = 16
const GOOD = 10
/** What a request for a name that resolves may take beside those that hang, in milliseconds. */
const WAIT = 2_000

/** The name server answers for one name and not for another. */
export const hangingDns: Fault = {
  name: 'DNS hangs for one name',
  within: 120,
  missing() {
    try {
      execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' })
      return undefined
    } catch {
      return 'SKIPPED: needs root and a mount namespace, for an own resolv.conf'
    }
  },
  async run(stage): Promise<Outcome> {
    await nameServer(stage)
    const resolv = join(await stage.folder(), 'resolv.conf')
    await writeFile(resolv, `nameserver ${SERVER}\n`)
    const port = await upstream(stage)
    const mount = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    const product = await Product.start(stage, { command: ['unshare', '--mount', 'sh', '-c', mount, resolv] })
    for (const name of ['good', 'hangs']) {
      const made = async (path: string, body: unknown) => (await product.ask(path, { method: 'POST', body })).json.id
      const backend_id = await made('/backends/static', { address: `${name}.example:${port}` })
      const edge = await made('/edges/https', { hostports: [`${name}.test:443`] })
      await made(`/edges/https/${edge}/routes`, { match: '/', backend: { backend_id } })
    }
    const ask = async (name: string) => {
      const begun = performance.now()
      const { status } = await product.visit('/', { headers: { host: `${name}.test` } })
      return { status, lasted: performance.now() - begun }
    }
    const alone = await ask('good')
    const hanging = Array.from({ length: HANGING }, () => ask('hangs'))
    const good = []
    for (let i = 0; i < GOOD; i++) good.push(await ask('good'))
    const late = await Promise.all(hanging)
    const slowest = Math.max(...good.map(({ lasted }) => lasted))
    const statuses = [...new Set(late.map(({ status }) => status))]
    const longest = Math.max(...late.map(({ lasted }) => lasted))
    return {
      clients: `the name that hangs: ${statuses.join(', ')} within ${seconds(longest)}; the other beside it: slowest ${seconds(slowest)}`,
      operator: `the answers say ${statuses.join(', ')}`,
      lost: [],
      broken: broken({
        'the good name is answered': alone.status === 200 && good.every(({ status }) => status === 200),
        'it does not wait for the other': slowest < WAIT,
        'the name that hangs is answered with an error': statuses.every((status) => status === 502 || status === 504)
      })
    }
  }
}

/** Answers `good.example` with loopback, anything but an address with nothing, and is silent for every other name. */
async function nameServer(stage: Stage): Promise<void> {
  const server = createSocket('udp4')
  server.on('message', (query, from) => {
    const end = query.indexOf(0, 12) + 1
    if (!query.toString('latin1', 12, end).startsWith('\x04good\x07example')) return
    const address = query.readUInt16BE(end) === 1
    const head = Buffer.from(query.subarray(0, end + 4))
    head.writeUInt16BE(0x8180, 2)
    head.writeUInt16BE(address ? 1 : 0, 6)
    head.writeUInt32BE(0, 8)
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1])
    server.send(address ? Buffer.concat([head, answer]) : head, from.port, from.address)
  })
  server.bind(53, SERVER)
  await once(server, 'listening')
  stage.teardown(() => server.close())
}

/** An upstream that keeps no connection, so that each request asks for the name. */
async function upstream(stage: Stage): Promise<number> {
  const server = createServer((_request, response) => {
    response.setHeader('connection', 'close').end('found')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  stage.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}
