import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { startHeldUpstream } from '../helpers/held-upstream.js'
import { freePort } from '../proxy/free-port.js'
import { startCuttingProxy } from '../store/cutting-proxy.js'
import { startOwnPostgres, through } from '../store/postgres-server.js'
import { broken, comes, type Fault, type Outcome, seconds } from './fault.js'
import { Product } from './product.js'
import { Site } from './site.js'

/** Seconds. */
const DRAIN = 2
/** Beside the drain, with room for a loaded machine. Milliseconds. */
const BESIDE = 8_000

/** The database hangs with a write under way when the process shall end. */
export const stopWithHangingDatabase: Fault = {
  name: 'SIGTERM while PostgreSQL hangs',
  within: 90,
  async run(stage): Promise<Outcome> {
    const server = await startOwnPostgres(stage as never)
    const url = await server.database()
    const line = await startCuttingProxy(stage as never, server.port)
    const env = { SLUICE_STORE: through(url, line.port), SLUICE_TIMEOUTS_DRAIN: `${DRAIN}s` }
    const product = await Product.start(stage, { env })
    const site = await Site.make(product)
    await site.write(product, 'second')
    line.silent = true
    const hanging = site.write(product, 'unanswered').then(
      ({ status }) => `answered ${status}`,
      () => 'cut'
    )
    const served = await site.serves(product)
    const { code, lasted } = await product.stop()
    const write = await hanging
    line.silent = false
    const next = await Product.start(stage, { env: { SLUICE_STORE: url, SLUICE_DATA: product.data } })
    const stored = await site.stored(next)
    return {
      clients: `served to the end; the write that hung: ${write}`,
      operator: `exit ${code} after ${seconds(lasted)}, drain time ${DRAIN} s`,
      lost: stored === site.acknowledged || stored === 'unanswered' ? [] : [`the store has ${stored}`],
      broken: broken({
        'traffic is served before': served === 'second',
        'the stop has its deadline': code === 0 && lasted < DRAIN * 1000 + BESIDE
      })
    }
  }
}

/** A connection under way keeps the old process; the new one has its files and ports meanwhile. */
export const successor: Fault = {
  name: 'a successor starts while the process drains',
  within: 90,
  async run(stage): Promise<Outcome> {
    const upstream = await startHeldUpstream(stage)
    const ports = { traffic: await freePort(), api: await freePort() }
    const data = join(await stage.folder(), 'data')
    const env = { SLUICE_DATA: data, SLUICE_UPSTREAM: upstream.url, SLUICE_TIMEOUTS_DRAIN: '60s' }
    const first = await Product.start(stage, { env, ports })
    const site = await Site.make(first)
    await site.write(first, 'second')
    const under = first.visit('/', { headers: { host: 'slow.test' } })
    await comes(10_000, () => upstream.waiting.length === 1)
    const begun = performance.now()
    const ended = first.stop()
    await comes(10_000, async () => (await closed(ports.traffic)) && (await closed(ports.api)))
    const second = await Product.start(stage, { env, ports })
    const gap = performance.now() - begun
    const beside = first.running
    const write = await site.write(second, 'third')
    for (const response of upstream.waiting) response.end('late')
    const { text } = await under
    const { code } = await ended
    return {
      clients: `nobody listens for ${seconds(gap)} (the start of the successor); the answer under way: ${text}`,
      operator: `exit ${code} with the last answer; the successor writes meanwhile: ${write.status}`,
      lost: [...(text === 'late' ? [] : ['the answer under way']), ...(await site.lost(second))],
      broken: broken({ 'both run beside each other': beside, 'the successor writes': write.status === 200 })
    }
  }
}

async function closed(port: number): Promise<boolean> {
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
