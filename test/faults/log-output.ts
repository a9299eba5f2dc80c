import { closeSync, existsSync, openSync } from 'node:fs'
import { broken, comes, type Fault, type Outcome, type Stage, seconds } from './fault.js'
import { Product } from './product.js'
import { Site, Traffic } from './site.js'

const ENV = { SLUICE_ACCESS_LOG: 'on', SLUICE_LOG_BUFFER: '1MiB' }
/** Lines; fewer may be the accident of one moment. */
const DROPPED = 10

async function flood(stage: Stage, product: Product) {
  const site = await Site.make(product)
  const traffic = new Traffic(stage, product)
  const dropped = () => product.metric('sluice_log_dropped_total')
  const drops = await comes(30_000, async () => (await dropped()) > DROPPED)
  await site.write(product, 'second')
  const alive = (await product.ask('/healthz')).status === 200
  return { site, traffic, drops, alive, lost: await site.lost(product), dropped: await dropped() }
}

/** Each line of the log fails with ENOSPC. */
export const fullDiskBelowLog: Fault = {
  name: 'full disk below the log',
  within: 90,
  missing: () => (existsSync('/dev/full') ? undefined : 'needs /dev/full'),
  async run(stage): Promise<Outcome> {
    const full = openSync('/dev/full', 'w')
    stage.teardown(() => closeSync(full))
    const product = await Product.start(stage, { output: full, env: ENV })
    const { traffic, drops, alive, lost, dropped } = await flood(stage, product)
    const clients = await traffic.stop()
    const { code, lasted } = await product.stop()
    return {
      clients,
      operator: `sluice_log_dropped_total ${dropped}; SIGTERM: exit ${code} after ${seconds(lasted)}`,
      lost,
      broken: broken({
        'no request fails': traffic.failed.length === 0,
        '/healthz answers': alive,
        'dropped lines are counted': drops,
        'a stop ends': code === 0 && lasted < 10_000
      })
    }
  }
}

/** The reader of the log hangs, and comes back. */
export const unreadLog: Fault = {
  name: 'a log that is not read',
  within: 90,
  async run(stage): Promise<Outcome> {
    const product = await Product.start(stage, { output: 'unread', env: ENV })
    const { traffic, drops, alive, lost, dropped } = await flood(stage, product)
    const clients = await traffic.stop()
    product.read()
    const told = await product.told('log output resumed')
    return {
      clients,
      operator: `sluice_log_dropped_total ${dropped}; ${told}`,
      lost,
      broken: broken({
        'no request fails': traffic.failed.length === 0,
        '/healthz answers': alive,
        'dropped lines are counted': drops,
        'the log says that it is written again': told !== undefined
      })
    }
  }
}
