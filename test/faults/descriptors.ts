import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { broken, comes, type Fault, type Outcome } from './fault.js'
import { Product } from './product.js'
import { Site } from './site.js'

/** Descriptors of the process, fewer than the connections that come. */
const ALLOWED = 256
const CONNECTIONS = 400
/** What the process keeps for itself is left, and clients have half of the rest. */
const CLIENTS = 96

/** More clients connect than the process has descriptors, and leave again. */
export const usedUpDescriptors = usedUp('descriptors used up', 0)
/** The same where threads carry the traffic. */
export const usedUpByThreads = usedUp('descriptors used up, with threads', 2)

function usedUp(name: string, workers: number): Fault {
  return {
    name,
    within: 60,
    missing: () => {
      if (workers > 0 && Number(process.versions.node.split('.')[0]) < 24) return 'SKIPPED: needs Node 24'
      try {
        execFileSync('prlimit', ['--version'], { stdio: 'ignore' })
        return undefined
      } catch {
        return "SKIPPED: needs Debian's package util-linux"
      }
    },
    async run(stage): Promise<Outcome> {
      const held: ServerResponse[] = []
      const upstream = createServer((_request, response) => void held.push(response)).listen(0, '127.0.0.1')
      await once(upstream, 'listening')
      stage.teardown(() => {
        upstream.closeAllConnections()
        upstream.close()
      })
      const env = {
        SLUICE_WORKERS: String(workers),
        SLUICE_UPSTREAM: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
      }
      const product = await Product.start(stage, { env, command: ['prlimit', `--nofile=${ALLOWED}:${ALLOWED}`] })
      const site = await Site.make(product)
      await site.write(product, 'before')
      const sockets: Socket[] = []
      stage.teardown(() => {
        for (const socket of sockets) socket.destroy()
      })
      let turnedAway = 0
      const statuses: Record<string, number> = {}
      while (sockets.length < CONNECTIONS) {
        const socket = connect(product.ports.traffic, '127.0.0.1')
        socket.on('error', () => undefined).on('close', () => turnedAway++)
        socket.on('data', (chunk: Buffer) => {
          const status = String(chunk).slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length)
          statuses[status] = (statuses[status] ?? 0) + 1
        })
        socket.write('GET / HTTP/1.1\r\nHost: of-the-upstream.test\r\n\r\n')
        sockets.push(socket)
      }
      const reasons = async () => (await product.ask('/readyz')).json.reasons as string[]
      const shown = await comes(10_000, async () => (await reasons()).includes('descriptors_short'))
      const divided = await comes(10_000, () => held.length === CLIENTS && turnedAway === CONNECTIONS - CLIENTS)
      const reached = held.length
      for (const response of held) response.end('ok')
      const answered = await comes(10_000, () => statuses['200'] === CLIENTS)
      const told = await product.told('degraded: few file descriptors are left')
      const refused = await product.told('connections are closed because there are too many')
      const closed = turnedAway
      for (const socket of sockets) socket.destroy()
      const again = await comes(15_000, async () => (await site.serves(product)) === 'before')
      const ready = await comes(15_000, async () => (await product.ask('/readyz')).json.status === 'ready')
      const written = (await site.write(product, 'after')).status
      return {
        clients: `${CONNECTIONS} connections at ${ALLOWED} descriptors: ${closed} closed, ${reached} reached the upstream, answers ${JSON.stringify(statuses)}; afterwards ${again ? 'served again' : 'NOT served'}`,
        operator: `/readyz: ${shown ? 'descriptors_short' : 'nothing'}; ${told ?? 'log: nothing'}`,
        lost: await site.lost(product),
        broken: broken({
          'the process lives': product.running,
          'requests are served again': again,
          'writes are taken again': written === 200,
          'each client that is accepted reaches its upstream': divided && answered,
          'nobody is answered with 502': statuses['502'] === undefined,
          'the reason is shown': shown,
          'the limit that was met is told': refused !== undefined,
          'the operator is told': told !== undefined,
          'it is ready again': ready
        })
      }
    }
  }
}
