import t from 'tap'
import { negotiate } from '../../src/features/compression/compressor.js'
import { asUrl } from '../../src/features/url-rewrite/feature.js'
import { refusalToWrite, wireValue } from '../../src/flow/headers.js'
import { RequestTarget } from '../../src/flow/target.js'

const ROUNDS = 3_000

/** Reproducible numbers in [0, 1) (mulberry32). */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Texts in which the dangerous characters are frequent. */
function* texts(seed: number): Generator<string> {
  const next = random(seed)
  const odd = [
    '\r',
    '\n',
    '\0',
    '\t',
    ' ',
    '\\',
    '/',
    '%',
    '%0d',
    '"',
    '<',
    '#',
    '?',
    '\x7f',
    '\u0085',
    '\u2028',
    'é',
    '😀',
    '\ud800'
  ]
  for (let round = 0; round < ROUNDS; round++) {
    let text = ''
    for (let length = Math.floor(next() * 12); length > 0; length--) {
      text += next() < 0.5 ? odd[Math.floor(next() * odd.length)] : String.fromCharCode(33 + Math.floor(next() * 94))
    }
    yield text
  }
}

t.test('a header value is refused or is bytes without a control character', async (t) => {
  let refused = 0
  for (const text of texts(1)) {
    const value = wireValue(text)
    if (value === undefined) refused++
    else if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) t.fail(JSON.stringify(text))
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what the rule is about
    if ((value === undefined) !== /[\0-\x08\x0a-\x1f\x7f]/.test(text)) t.fail(JSON.stringify(text))
  }
  t.ok(refused > ROUNDS / 10 && refused < ROUNDS)
})

t.test('a URL text is visible ASCII, stays itself the second time, and its target keeps no line break', async (t) => {
  for (const text of texts(2)) {
    const url = asUrl(text)
    if (!/^[\x21-\x7e]*$/.test(url) || url.includes('\\')) t.fail(JSON.stringify(text))
    if (asUrl(url) !== url) t.fail(`not stable: ${JSON.stringify(text)}`)
    const target = RequestTarget.fromUrl(`http://a.test/${url}`)
    if (target !== undefined && (target.authority !== 'a.test' || !/^\/[\x21-\x7e]*$/.test(target.uri)))
      t.fail(JSON.stringify(text))
  }
  t.pass()
})

t.test('negotiation answers with an offered coding that the client did not refuse, or with none', async (t) => {
  const next = random(3)
  const names = ['gzip', 'br', 'deflate', 'identity', '*', 'x']
  const qualities = ['', ';q=0', ';q=0.0', ';q=1', ';q=0.5', ';q=nonsense', '; q=0.001']
  const pick = (list: readonly string[]) => list[Math.floor(next() * list.length)] as string
  const offered = ['br', 'gzip', 'deflate']
  let chosen = 0
  for (let round = 0; round < ROUNDS; round++) {
    const members = new Map<string, string>()
    for (let count = Math.floor(next() * 5); count > 0; count--) members.set(pick(names), pick(qualities))
    const header = [...members].map(([name, quality]) => name + quality).join(', ')
    const coding = negotiate(header, offered)
    if (coding === undefined) continue
    chosen++
    const quality = members.get(coding) ?? members.get('*')
    if (!offered.includes(coding) || quality === undefined || /q=0(\.0)?$/.test(quality)) t.fail(`${header}: ${coding}`)
  }
  t.ok(chosen > ROUNDS / 10)
})

t.test('header names: tokens pass, aliases of reserved names do not', async (t) => {
  for (const name of [
    'x',
    'X-Custom',
    'cookie',
    'x_y',
    "!#$%&'*+.^`|~1",
    '__proto__',
    'constructor',
    'authorization'
  ]) {
    t.equal(refusalToWrite(name), undefined, name)
  }
  for (const name of [
    '',
    ' ',
    'a:',
    'a b',
    'é',
    'a\r\nb',
    'Content-Length',
    'CONTENT_LENGTH',
    'Transfer_Encoding',
    'x'.repeat(257)
  ]) {
    t.ok(refusalToWrite(name), name)
  }
})
