import t from 'tap'
import { readJsonObject, readToken } from '../../../src/features/jwt/token.js'

/** Numbers from 0 to 1, the same in every run. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const random = generator(11)
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
const NAMES = [
  'a',
  'b',
  'iss',
  '',
  ':',
  '"',
  '\\',
  '{',
  '}',
  '[,]',
  '\\":',
  '\n',
  'ü',
  '\u{1f511}',
  '__proto__',
  'constructor'
]

/** JSON text of a random value, and with `twice` one object in it that has a member twice. */
function textOf(depth: number, twice: { left: number }): string {
  const kind = depth === 0 ? 4 : Math.floor(random() * 6)
  if (kind === 0) return pick(['1', '-0.5e3', 'true', 'false', 'null'])
  if (kind === 1) return JSON.stringify(pick(NAMES))
  if (kind === 2)
    return `[${Array.from({ length: Math.floor(random() * 4) }, () => textOf(depth + 1, twice)).join(' ,')}]`
  const names = [...new Set(Array.from({ length: Math.floor(random() * 5) }, () => pick(NAMES)))]
  if (names.length > 0 && twice.left > 0 && random() < 0.5) {
    twice.left--
    names.push(names[0] as string)
  }
  const value = () => (depth > 4 ? '7' : textOf(depth + 1, twice))
  return `{${names.map((name) => ` ${spelled(name)} : ${value()}`).join(',')} }`
}

/** A name in one of its spellings. */
function spelled(name: string): string {
  if (random() < 0.7) return JSON.stringify(name)
  const escaped = [...Array(name.length).keys()].map((i) => `\\u${name.charCodeAt(i).toString(16).padStart(4, '0')}`)
  return `"${escaped.join('')}"`
}

t.test('an object is read as it is, and one with a member twice never', async (t) => {
  let refused = 0
  for (let i = 0; i < 5_000; i++) {
    const twice = { left: i % 2 }
    const text = textOf(0, twice)
    const read = readJsonObject(Buffer.from(text))
    if (i % 2 === 1 && twice.left === 0) {
      refused++
      if (read !== undefined) t.fail(text)
    } else if (JSON.stringify(read) !== JSON.stringify(JSON.parse(text))) t.fail(text)
  }
  t.ok(refused > 500, `${refused} were refused`)
})

t.test('what is no object', async (t) => {
  const nested = (depth: number) => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`
  t.ok(readJsonObject(Buffer.from(nested(63))))
  for (const text of [
    '',
    '[]',
    '7',
    'null',
    '"a"',
    '{',
    '{"a":1}x',
    '{"a":1,}',
    "{'a':1}",
    '\ufeff{}',
    nested(64),
    nested(100_000)
  ]) {
    t.equal(readJsonObject(Buffer.from(text)), undefined, text.slice(0, 20))
  }
  t.equal(readJsonObject(Buffer.from([0x7b, 0x22, 0xc0, 0x80, 0x22, 0x3a, 0x31, 0x7d])), undefined, 'no UTF-8')
  const proto = readJsonObject(Buffer.from('{"__proto__":{"iss":"x"}}'))
  t.equal(proto?.iss, undefined)
})

t.test('no text, however broken, makes the reader of tokens fail', async (t) => {
  const part = (data: unknown) => Buffer.from(JSON.stringify(data)).toString('base64url')
  const good = `${part({ alg: 'RS256', kid: 'one' })}.${part({ iss: 'x', exp: 1 })}.${part('signature')}`
  t.type(readToken(good), 'object')
  for (let i = 0; i < 20_000; i++) {
    const characters = [...good]
    for (let changes = 1 + Math.floor(random() * 4); changes > 0; changes--) {
      const at = Math.floor(random() * characters.length)
      if (random() < 0.3) characters.splice(at, 1)
      else characters[at] = pick(['.', 'A', '_', '=', '+', ' ', '\u0000', 'é', 'Z', ''])
    }
    const text = characters.join('')
    const read = readToken(text)
    if (typeof read === 'string' ? !read.startsWith('JWT_') : read.text !== text) t.fail(text)
  }
  t.equal(readToken('.'.repeat(16_000)), 'JWT_MALFORMED')
})
