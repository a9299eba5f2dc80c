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
  'deadline timer': /\bSweeper\b/,
  'address filter': /\bAddressGate|address-gate|\bGateCounts\b|\bGatedTraffic\b/,
  'caller check': /doorkeeper/i,
  'cluster board': /\binterface Board\b|(?<!cluster )\bthe board\b/,
  heartbeat: /SignsOfLife|signs-of-life|\bshows? life\b/,
  lease: /\bclass Lease\b/,
  'malformed message': /\bMalformedHead\b/,
  'persistent state': /\bKeptState\b|\bkeptState\b/
}

/** What code does is named for what it is: it reports, publishes, logs or notifies. These names say none of it. */
const SPOKEN = /(?<!['`"\w])#?(?:tell|told|telling[A-Z]\w*|heard|Told|Tell)\b(?!['`"\w])/

/** Comments name the caller, the owner or the process. */
const IMPRECISE = /\b(nobody|whoever|somebody|anybody|hears? of)\b/i
/** Comments say who reports what to whom. */
const PERSONIFIED = /\b(told|hears)\b/i
const lines = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .flatMap((file) =>
    readFileSync(path.join('src', file), 'utf8')
      .split('\n')
      .map((text, index) => ({ file, text, place: `${path.join('src', file)}:${index + 1}` }))
  )

/** A line of code without its comment and its texts. */
const codeOf = (text: string) =>
  text.replace(/^\s*(?:\/?\*|\/\/).*|\/\/ .*/, '').replace(/'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`/g, "''")

const commentOf = (text: string) => /^\s*(?:\/?\*|\/\/).*|\/\/ .*/.exec(text)?.[0] ?? ''

t.test('the source uses the standard terms', async (t) => {
  t.ok(lines.length > 10_000, 'the source was read')
  for (const [term, word] of Object.entries(REPLACED)) {
    const found = lines.filter(({ file, text }) => word.test(text) || word.test(path.basename(file)))
    t.same([...new Set(found.map(({ place }) => place))], [], `"${term}" is the word`)
  }
})

t.test('comments name who acts', async (t) => {
  const found = lines.filter(({ text }) => {
    const comment = commentOf(text)
    return IMPRECISE.test(comment) || PERSONIFIED.test(comment)
  })
  t.same(
    found.map(({ place }) => place),
    []
  )
})

t.test('names say what code does', async (t) => {
  const found = lines.filter(({ text }) => SPOKEN.test(codeOf(text)))
  t.same(
    found.map(({ place }) => place),
    []
  )
})
