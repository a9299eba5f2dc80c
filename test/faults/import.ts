import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startOwnPostgres } from '../store/postgres-server.js'
import { command } from './command.js'
import { broken, comes, type Fault, type Outcome, seconds } from './fault.js'
import { Product } from './product.js'
import { Site, Traffic } from './site.js'

/** Each an edge with a route. */
const SITES = 10_000
const SEAL_KEY = Buffer.alloc(32, 's').toString('base64')
/** Between two writes beside the import, and how long one may take, in milliseconds. */
const PAUSE = 500
const WRITE = 15_000
/** How long a client may wait meanwhile, in milliseconds. */
const WAIT = 500
const LONGEST = 60_000

/** A command writes 20,000 records into the store that a process serves and writes. */
export const largeImport: Fault = {
  name: 'import of 20,000 records on PostgreSQL',
  within: 240,
  async run(stage): Promise<Outcome> {
    const server = await startOwnPostgres(stage as never)
    const env = { SLUICE_STORE: await server.database(), SLUICE_SEAL_KEY: SEAL_KEY }
    const product = await Product.start(stage, { env })
    const site = await Site.make(product)
    const cwd = await stage.folder()
    await writeFile(join(cwd, 'account.yaml'), accountDocument(SITES))
    const traffic = new Traffic(stage, product)
    const begun = performance.now()
    const importing = command(stage, ['import', 'account.yaml', '--partial', '--yes'], cwd, {
      SLUICE_DATA: product.data,
      ...env
    })
    const refused: string[] = []
    let writes = 0
    let slowest = 0
    while (importing.running) {
      const from = performance.now()
      const answer = await site.write(product, `beside ${++writes}`)
      slowest = Math.max(slowest, performance.now() - from)
      if (answer.status !== 200) refused.push(`${answer.status} “${answer.json?.msg ?? answer.text}”`)
      await new Promise((resolve) => setTimeout(resolve, PAUSE))
    }
    const lasted = performance.now() - begun
    const { code, said } = await importing.ended
    const followed = await comes(30_000, async () => {
      const { status } = await product.visit('/', { headers: { host: `h${SITES - 1}.test` } })
      return status === 299
    })
    const clients = await traffic.stop()
    return {
      clients,
      operator: `imported in ${seconds(lasted)}, exit ${code} ${said}; ${writes} writes beside it, slowest ${seconds(slowest)}, refused ${refused.length}${refused[0] === undefined ? '' : ` (${refused[0]})`}`,
      lost: await site.lost(product),
      broken: broken({
        'the import is done in a minute': code === 0 && lasted < LONGEST,
        'the running process serves what was imported': followed,
        'no write beside it is refused': refused.length === 0,
        'each write is answered in time': slowest < WRITE,
        [`no client waits longer than ${WAIT} ms`]: traffic.slowest < WAIT,
        'no request fails': traffic.failed.length === 0
      })
    }
  }
}

/** An account with so many sites, each an edge with a route that answers 299. */
export function accountDocument(sites: number): string {
  const policy = JSON.stringify({
    on_http_request: [{ actions: [{ type: 'custom-response', config: { status_code: 299 } }] }]
  })
  const each = (line: (n: number) => string) => Array.from({ length: sites }, (_, n) => line(n)).join('\n')
  return `format: sluice-account/1
records:
  https_edge:
${each((n) => `    - { id: edghts_${n}, fields: { hostports: ["h${n}.test:443"] } }`)}
  https_edge_route:
${each((n) => `    - { id: edghtsrt_${n}, fields: { edge_id: edghts_${n}, match: /, traffic_policy: { value: '${policy}' } } }`)}
`
}
