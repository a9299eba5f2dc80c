import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { freePort } from '../proxy/free-port.js'
import { command } from './command.js'
import { broken, comes, type Fault, type Outcome, seconds } from './fault.js'
import { Product } from './product.js'
import { Site } from './site.js'

/** Requests, each on a connection of its own, while one of two threads hangs. */
const VISITS = 40
/** How long an agent stands still, and after what its heartbeats are missing. Milliseconds. */
const STILL = 6_000
const MISSED = 4_000

/** Makes the event loop of the first traffic thread that sees `file` stand still. */
function hangingAt(file: string): string {
  const code = `import { isMainThread } from 'node:worker_threads'
import { rmSync } from 'node:fs'
if (!isMainThread) setInterval(() => { try { rmSync(${JSON.stringify(file)}) } catch { return }; for (;;); }, 50).unref()`
  return `--import=data:text/javascript,${encodeURIComponent(code)}`
}

/** The event loop of one of two threads that carry traffic stands still. */
export const hungThread: Fault = {
  name: 'a traffic thread hangs',
  within: 60,
  missing: () => (Number(process.versions.node.split('.')[0]) < 24 ? 'SKIPPED: needs Node 24' : undefined),
  async run(stage): Promise<Outcome> {
    const file = join(await stage.folder(), 'hang')
    const product = await Product.start(stage, { env: { SLUICE_WORKERS: '2', NODE_OPTIONS: hangingAt(file) } })
    const site = await Site.make(product)
    await site.write(product, 'before')
    const reasons = async () => (await product.ask('/readyz')).json.reasons as string[]
    await comes(20_000, async () => (await site.serves(product)) === 'before' && (await reasons()).length === 0)
    // The threads that look have begun.
    writeFileSync(file, '')
    await comes(5_000, () => !existsSync(file))
    await new Promise((resolve) => setTimeout(resolve, 2_000))
    const begun = performance.now()
    let served = 0
    for (let visit = 0; visit < VISITS; visit++) if ((await site.serves(product)) === 'before') served++
    const lasted = performance.now() - begun
    const told = await product.told('a thread that carries traffic hangs')
    const degraded = await comes(5_000, async () => (await reasons()).includes('workers_missing'))
    const ready = await comes(20_000, async () => (await reasons()).length === 0)
    return {
      clients: `${served} of ${VISITS} new connections are served within ${seconds(lasted)} while it hangs`,
      operator: `${told ?? 'log: nothing'}; /readyz: ${degraded ? 'workers_missing' : 'nothing'}, then ${ready ? 'ready' : 'NOT ready'}`,
      lost: await site.lost(product),
      broken: broken({
        'each new connection goes to a thread that serves': served === VISITS && lasted < 10_000,
        'the operator is told': told !== undefined && degraded,
        'the thread is replaced': ready
      })
    }
  }
}

/** A successor is asked for while the process stands still as a whole. */
export const takeOverFromHung: Fault = {
  name: 'a take-over from a hung process',
  within: 90,
  async run(stage): Promise<Outcome> {
    const cwd = await stage.folder()
    const data = join(cwd, 'data')
    const product = await Product.start(stage, { env: { SLUICE_DATA: data } })
    const site = await Site.make(product)
    await site.write(product, 'before')
    await comes(10_000, () => existsSync(join(data, 'take-over.sock')))
    product.child.kill('SIGSTOP')
    const begun = performance.now()
    const { traffic, api } = product.ports
    const asking = command(stage, ['start', '--take-over'], cwd, {
      SLUICE_DATA: data,
      SLUICE_LISTEN: `127.0.0.1:${traffic}`,
      SLUICE_API_LISTEN: `127.0.0.1:${api}`,
      SLUICE_API_KEY: 'a-key-of-the-administrator',
      SLUICE_LIMITER_BUDGET: '64MiB'
    })
    const serves = await comes(40_000, async () => !product.running && (await site.serves(product)) === 'before')
    const lasted = performance.now() - begun
    await comes(20_000, async () => (await product.ask('/healthz')).status === 200)
    const lost = await site.lost(product)
    asking.stop()
    const { said } = await asking.ended
    const steps = ['no answer for 5 s', 'killing it', 'starting normally']
    const missing = steps.filter((step) => !said.includes(step))
    return {
      clients: `served again ${seconds(lasted)} after the command`,
      operator: missing.length === 0 ? steps.join('; ') : `not told: ${missing.join('; ')}`,
      lost,
      broken: broken({
        'the new process serves within 30 s': serves && lasted < 30_000,
        'each step is told': missing.length === 0
      })
    }
  }
}

/** One of two agents of a group stands still for a while. */
export const hungAgent: Fault = {
  name: 'an agent stands still for 6 s',
  within: 90,
  async run(stage): Promise<Outcome> {
    const names = ['a', 'b'] as const
    const port = await freePort()
    const product = await Product.start(stage, { env: { SLUICE_AGENTS: `127.0.0.1:${port}` } })
    const made = async (path: string, body: unknown) => (await product.ask(path, { method: 'POST', body })).json
    const backend = (await made('/backends/tunnel_group', { labels: { app: 'web' } })).id
    const edge = (await made('/edges/https', { hostports: ['agent.test:443'] })).id
    await made(`/edges/https/${edge}/routes`, { match: '/', backend: { backend_id: backend } })
    const token = (await made('/credentials', {})).token as string
    const agents = await Promise.all(
      names.map(async (name) => {
        const upstream = createServer((_request, response) => response.end(name)).listen(0, '127.0.0.1')
        stage.teardown(() => upstream.close())
        await once(upstream, 'listening')
        const forward = String((upstream.address() as AddressInfo).port)
        const at = ['--server', `localhost:${port}`, '--ca', join(product.data, 'agents', 'ca.pem')]
        const words = ['agent', ...at, '--label', 'app=web', '--forward', forward]
        return command(stage, words, await stage.folder(), { SLUICE_TOKEN: token })
      })
    )
    const visit = async () => (await product.visit('/', { headers: { host: 'agent.test' } })).text
    const seen = new Set<string>()
    const both = await comes(
      20_000,
      async () => seen.add(await visit()).size >= 2 && names.every((one) => seen.has(one))
    )
    agents[0]?.pause()
    const begun = performance.now()
    let [visits, served, held, slowest] = [0, 0, 0, 0]
    const comers: Promise<unknown>[] = []
    const come = async (): Promise<void> => {
      const asked = performance.now()
      const text = await visit()
      const lasted = performance.now() - asked
      if (asked - begun <= MISSED) {
        if (lasted > 1_000) held++
        return
      }
      visits++
      if (text === 'b') served++
      slowest = Math.max(slowest, lasted)
    }
    while (performance.now() - begun < STILL) {
      comers.push(come())
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    agents[0]?.resume()
    await Promise.all(comers)
    const again = await comes(20_000, async () => (await visit()) === 'a')
    return {
      clients: `${held} visitors waited; once heartbeats were missing ${served} of ${visits} were served by the other agent, slowest ${seconds(slowest)}; afterwards ${again ? 'both serve' : 'NOT both'}`,
      operator: 'nothing',
      lost: [],
      broken: broken({
        'both agents serve before': both,
        'no visitor waits for the one that stands still': visits > 0 && served === visits && slowest < 1_000,
        'both agents serve afterwards': again
      })
    }
  }
}
