import { type Fault, type Outcome, Stage, seconds } from './fault.js'
import { faults } from './list.js'

/**
 * `npm run faults [-- WORD…]`: does one fault after the other to the real product, those whose name has one of the words or
 * all, and prints one table. Exits with 1 when something was lost or did not hold, or no name has one of the words.
 */
type Row = readonly [name: string, clients: string, operator: string, lost: string, lasted: string]

const words = process.argv.slice(2)
const chosen = faults.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)))
if (chosen.length === 0) {
  console.error(`there is no fault with ${words.join(', ')} in its name: ${faults.map(({ name }) => name).join('; ')}`)
  process.exit(1)
}
const rows: Row[] = []
let failed = false
for (const fault of chosen) {
  const row = await done(fault)
  rows.push(row)
  console.error(`${row[0]}: ${row[3]} (${row[4]})`)
}
console.log('| fault | what clients saw | what the operator was told | lost | lasted |\n|---|---|---|---|---|')
for (const row of rows) console.log(`| ${row.join(' | ')} |`)
// What starts PostgreSQL for tests sets the exit code to 0 when nothing is left to do.
process.exit(failed ? 1 : 0)

async function done(fault: Fault): Promise<Row> {
  const missing = fault.missing?.()
  if (missing !== undefined) return [fault.name, 'not done', missing, '–', '–']
  const stage = new Stage()
  const begun = performance.now()
  const outcome = await bounded(fault, stage).catch((error: unknown): Outcome => {
    const text = error instanceof Error ? error.message : String(error)
    return { clients: '', operator: '', lost: [], broken: [`it failed: ${text}`] }
  })
  await stage.end()
  const { clients, operator, lost, broken } = outcome
  const wrong = [...lost.map((text) => `LOST: ${text}`), ...broken.map((text) => `BROKEN: ${text}`)]
  failed ||= wrong.length > 0
  return [fault.name, clients, operator, wrong.join('; ') || 'nothing', seconds(performance.now() - begun)]
}

async function bounded(fault: Fault, stage: Stage): Promise<Outcome> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not over within ${fault.within} s`)), fault.within * 1000)
  })
  try {
    return await Promise.race([fault.run(stage), late])
  } finally {
    clearTimeout(timer)
  }
}
