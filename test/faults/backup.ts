import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { command } from './command.js'
import { broken, type Fault, type Outcome, type Stage, seconds } from './fault.js'
import { accountDocument } from './import.js'
import { KEY, Product } from './product.js'
import { Site, Traffic } from './site.js'

/** Records beside those that are written: they make a backup take its time. */
const SITES = 2_000
const ROUNDS = 4
const SEAL_KEY = Buffer.alloc(32, 's').toString('base64')

interface Backup {
  readonly file: string
  /** How many rounds of writes were acknowledged before it began. */
  readonly before: number
  readonly failure: string | undefined
}

/** Backups are made by the command and by the API while the site is written and visited. */
export const backupUnderLoad: Fault = {
  name: 'backup under load',
  within: 240,
  async run(stage): Promise<Outcome> {
    const cwd = await stage.folder()
    const data = join(cwd, 'data')
    const env = { SLUICE_DATA: data, SLUICE_SEAL_KEY: SEAL_KEY }
    await writeFile(join(cwd, 'account.yaml'), accountDocument(SITES))
    const imported = await command(stage, ['import', 'account.yaml', '--yes'], cwd, env).ended
    if (imported.code !== 0) throw new Error(`the import failed: ${imported.said}`)
    const product = await Product.start(stage, { env })
    const site = await Site.make(product)
    const traffic = new Traffic(stage, product)
    const writer = new Writer(product, site)
    const begun = performance.now()
    const backups: Backup[] = []
    for (let round = 0; round < ROUNDS; round++) {
      backups.push(
        ...(await Promise.all([
          taken(join(cwd, `command-${round}.db`), writer, async (file) => {
            const { code, said } = await command(stage, ['backup', file], cwd, env).ended
            return code === 0 ? undefined : `exit ${code} ${said}`
          }),
          taken(join(cwd, `api-${round}.db`), writer, (file) => download(product, file))
        ]))
      )
    }
    const lasted = performance.now() - begun
    const refused = await writer.stop()
    const clients = await traffic.stop()
    const lost = await site.lost(product)
    const wrong = []
    for (const backup of backups) wrong.push(...(await restored(stage, cwd, backup)))
    const failures = backups.flatMap(({ failure }) => failure ?? [])
    return {
      clients,
      operator: `${backups.length} backups in ${seconds(lasted)}, half by the command, half by GET /backup; ${writer.rounds} rounds of writes beside them, refused ${refused.length}`,
      lost: [...lost, ...wrong],
      broken: broken({
        [`each backup is made (${failures[0] ?? ''})`]: failures.length === 0,
        [`each write beside them is taken (${refused[0] ?? ''})`]: refused.length === 0,
        'writes go on meanwhile': writer.rounds > 2 * ROUNDS,
        'no request fails': traffic.failed.length === 0
      })
    }
  }
}

/** Writes in rounds: the site first, then a record with the number of the round. */
class Writer {
  /** How many were acknowledged as a whole. */
  rounds = 0
  readonly #refused: string[] = []
  #running = true
  readonly #done: Promise<void>

  constructor(product: Product, site: Site) {
    this.#done = this.#write(product, site)
  }

  /** Ends it; resolves with what was refused. */
  async stop(): Promise<readonly string[]> {
    this.#running = false
    await this.#done
    return this.#refused
  }

  async #write(product: Product, site: Site): Promise<void> {
    for (let round = 1; this.#running; round++) {
      const set = await site.write(product, String(round))
      const made = await product.ask('/ip_policies', { method: 'POST', body: { description: String(round) } })
      if (set.status !== 200 || made.status !== 201) {
        this.#refused.push(`${set.status} ${made.status}`)
        return
      }
      this.rounds = round
    }
  }
}

async function taken(
  file: string,
  writer: Writer,
  make: (file: string) => Promise<string | undefined>
): Promise<Backup> {
  const before = writer.rounds
  return { file, before, failure: await make(file) }
}

async function download({ ports }: Product, file: string): Promise<string | undefined> {
  const answer = await fetch(`http://127.0.0.1:${ports.api}/backup`, {
    headers: { authorization: `Bearer ${KEY}`, 'service-version': '2' }
  })
  const bytes = Buffer.from(await answer.arrayBuffer())
  if (answer.status !== 200) return `${answer.status} ${bytes}`
  await writeFile(file, bytes)
  return undefined
}

/** What a backup lacks, and where it is of no single moment, as a process shows that starts on it. */
async function restored(stage: Stage, cwd: string, { file, before, failure }: Backup): Promise<string[]> {
  if (failure !== undefined) return []
  const env = { SLUICE_DATA: file.replace(/\.db$/, ''), SLUICE_SEAL_KEY: SEAL_KEY }
  const { code, said } = await command(stage, ['restore', file], cwd, env).ended
  if (code !== 0) return [`${file} is not restored: ${said}`]
  const product = await Product.start(stage, { env })
  const rounds: number[] = []
  for (let page = '/ip_policies'; page !== ''; ) {
    const { json } = await product.ask(page)
    for (const { description } of json.ip_policies as { description: string }[]) rounds.push(Number(description))
    page = json.next_page_uri === null ? '' : `/ip_policies${new URL(json.next_page_uri).search}`
  }
  const last = Math.max(0, ...rounds)
  const host = `h${SITES - 1}.test`
  const [served, other] = [await Site.serving(product), await product.visit('/', { headers: { host } })]
  await product.kill()
  const set = served === 'first' ? 0 : Number(served)
  return [
    ...(last >= before ? [] : [`${file} ends with round ${last}, and ${before} were acknowledged before it began`]),
    ...(new Set(rounds).size === last ? [] : [`${file} lacks rounds before ${last}`]),
    ...(set === last || set === last + 1 ? [] : [`${file} is of no single moment: site ${served}, record ${last}`]),
    ...(other.status === 299 ? [] : [`${file} lacks the sites that were imported`])
  ]
}
