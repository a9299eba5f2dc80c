import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

/** Words for which the field has a standard term. They appear in no name and no comment of `src`. */
const REPLACED: Readonly<Record<string, RegExp>> = {
  'header sanitizing': /hygiene/i,
  'request context': /passage/i,
  batch: /parcel/i,
  'protocol handler on a shared port': /side[ -]?door/i,
  'server transport': /\b(PipeFront|codecFront|httpFront)\b/,
  'deadline timer': /\bSweeper\b/
}

/** Comments name the caller, the owner or the process. These folders hold to it. */
const IMPRECISE = /\b(nobody|whoever|somebody|anybody|hears? of)\b/i
const PRECISE = 'api certificates cli events expression flow lib proxy store telemetry transport tunnel'.split(' ')

const lines = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .flatMap((file) =>
    readFileSync(path.join('src', file), 'utf8')
      .split('\n')
      .map((text, index) => ({ file, text, place: `${path.join('src', file)}:${index + 1}` }))
  )

t.test('the source uses the standard terms', async (t) => {
  t.ok(lines.length > 10_000, 'the source was read')
  for (const [term, word] of Object.entries(REPLACED)) {
    const found = lines.filter(({ file, text }) => word.test(text) || word.test(path.basename(file)))
    t.same([...new Set(found.map(({ place }) => place))], [], `"${term}" is the word`)
  }
})

t.test('comments name who acts', async (t) => {
  const found = lines.filter(
    ({ file, text }) =>
      PRECISE.includes(file.split(path.sep)[0] ?? '') &&
      IMPRECISE.test(/^\s*(?:\/?\*|\/\/).*|\/\/ .*/.exec(text)?.[0] ?? '')
  )
  t.same(
    found.map(({ place }) => place),
    []
  )
})
