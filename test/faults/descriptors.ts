import { execFileSync } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { broken, comes, type Fault, type Outcome } from './fault.js'
import { Product } from './product.js'
import { Site } from './site.js'

/** Descriptors of the process, fewer than the connections that come. */
const ALLOWED = 256
const CONNECTIONS = 400
/** More than nine tenths of them, with some left. */
const SHORT = 240

/** More clients connect than the process has descriptors, and leave again. */
export const usedUpDescriptors: Fault = {
  name: 'descriptors used up',
  within: 60,
  missing: () => {
    try {
      execFileSync('prlimit', ['--version'], { stdio: 'ignore' })
      return undefined
    } catch {
      return "SKIPPED: needs Debian's package util-linux"
    }
  },
  async run(stage): Promise<Outcome> {
    const product = await Product.start(stage, {})
    const site = await Site.make(product)
    await site.write(product, 'before')
    execFileSync('prlimit', ['--pid', String(product.child.pid), `--nofile=${ALLOWED}:${ALLOWED}`])
    const sockets: Socket[] = []
    stage.teardown(() => {
      for (const socket of sockets) socket.destroy()
    })
    let turnedAway = 0
    const reach = (connections: number) => {
      while (sockets.length < connections) {
        const socket = connect(product.ports.traffic, '127.0.0.1')
        socket.on('error', () => undefined).on('close', () => turnedAway++)
        sockets.push(socket)
      }
    }
    reach(SHORT - (await product.metric('process_open_fds')))
    const reasons = async () => (await product.ask('/readyz')).json.reasons as string[]
    const shown = await comes(10_000, async () => (await reasons()).includes('descriptors_short'))
    reach(CONNECTIONS)
    const asked = await Promise.race([
      site.serves(product).catch((error: Error) => error.message),
      new Promise<string>((resolve) => setTimeout(resolve, 3_000, 'no answer within 3 s'))
    ])
    const told = await product.told('degraded: few file descriptors are left')
    const closed = turnedAway
    for (const socket of sockets) socket.destroy()
    const again = await comes(15_000, async () => (await site.serves(product)) === 'before')
    const ready = await comes(15_000, async () => (await product.ask('/readyz')).json.status === 'ready')
    const written = (await site.write(product, 'after')).status
    return {
      clients: `${CONNECTIONS} connections at ${ALLOWED} descriptors: ${closed} closed; one request meanwhile: ${asked}; afterwards ${again ? 'served again' : 'NOT served'}`,
      operator: `/readyz at ${SHORT} of ${ALLOWED}: ${shown ? 'descriptors_short' : 'nothing'}; ${told ?? 'log: nothing'}`,
      lost: await site.lost(product),
      broken: broken({
        'the process lives': product.running,
        'requests are served again': again,
        'writes are taken again': written === 200,
        'the reason is shown before none is left': shown,
        'the operator is told': told !== undefined,
        'it is ready again': ready
      })
    }
  }
}
