import { writeFileSync } from 'node:fs'
import { mutated, Random } from './codec-fuzz.js'
import { compared } from './codec-fuzz-check.js'

/**
 * Looks for messages that the codec reads differently when they are cut, or differently from llhttp, for as long as it is told.
 *
 * Arguments: seed, seconds, and a file for the messages on which the readers disagree (one JSON string per line). Ends
 * with status 1 when there were any. The same seed tries the same messages in the same order.
 */
const [seed = 1, seconds = 60] = process.argv.slice(2, 4).map(Number)
const file = process.argv[4]
if (!Number.isSafeInteger(seed) || !(seconds > 0)) {
  console.error('usage: codec-fuzz-run [SEED] [SECONDS] [FILE]')
  process.exit(2)
}

const random = new Random(seed)
const begun = performance.now()
const problems: string[] = []
let tried = 0
let accepted = 0
let shown = begun

function report(): void {
  const passed = (performance.now() - begun) / 1000
  console.log(
    `seed ${seed}: ${passed.toFixed(0)} s, ${tried} messages, ${accepted} requests accepted, ${problems.length} disagreements`
  )
}

while (performance.now() - begun < seconds * 1000 && problems.length < 20) {
  const found = await compared(mutated(random), random)
  tried++
  accepted += found.accepted
  if (found.problem !== undefined) {
    problems.push(found.problem)
    console.error(`message ${tried}: ${found.problem}`)
  }
  if (performance.now() - shown > 10_000) {
    shown = performance.now()
    report()
  }
}
report()
if (file !== undefined) writeFileSync(file, problems.map((problem) => `${JSON.stringify(problem)}\n`).join(''))
if (problems.length > 0) process.exitCode = 1
