import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { compilePhrases, parsePhraseFile, parsePhrases } from '../../../src/features/waf/phrases.js'

t.test('finds the first phrase that ends in the text', async (t) => {
  const search = compilePhrases(['he', 'she', 'hers', 'Bash'])
  t.equal(search('ushers'), 'she')
  t.equal(search('xhex'), 'he')
  t.equal(search('/BIN/bASH'), 'bASH')
  t.equal(search('hxexrxs'), undefined)
  t.equal(search(''), undefined)
})

t.test('a phrase inside of another one is found when the longer one fails', async (t) => {
  t.equal(compilePhrases(['abcdx', 'bcd', 'c'])('abcde'), 'c')
  t.equal(compilePhrases(['abcdx', 'bcd'])('abcde'), 'bcd')
  t.equal(compilePhrases(['aaab', 'aac'])('aaaac'), 'aac')
})

t.test('only ASCII letters are compared without case', async (t) => {
  const search = compilePhrases(['\xc4@['])
  t.equal(search('\xc4@['), '\xc4@[')
  t.equal(search('\xe4@['), undefined)
  t.equal(search('\xc4`{'), undefined)
})

t.test('no phrase, and an empty one, never match', async (t) => {
  t.equal(compilePhrases([])('abc'), undefined)
  t.equal(compilePhrases([''])('abc'), undefined)
})

t.test('reads arguments and files', async (t) => {
  t.same(parsePhrases('  a\tb  A|42 43|D ( )'), ['a', 'b', 'A|42', '43|D', '(', ')'])
  t.same(parsePhrases('A|4243|D |41| |zz| | || |4|'), ['ABCD', 'A', '|zz|', '|', '||', '|4|'])
  t.same(parsePhraseFile('# comment\n\n one two \r\n  # other\nA|42 43|D\nx|y|41|\n'), ['one two', 'ABCD', 'x|yA'])
})

t.test('agrees with a search for each phrase', async (t) => {
  let state = 7
  const next = (limit: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % limit
  }
  const word = (length: number) => Array.from({ length }, () => 'abAB'[next(4)]).join('')
  const wrong: string[] = []
  for (let round = 0; round < 500; round++) {
    const phrases = Array.from({ length: 1 + next(5) }, () => word(1 + next(5)))
    const search = compilePhrases(phrases)
    for (let i = 0; i < 10; i++) {
      const text = word(next(12))
      const lower = text.toLowerCase()
      const ends = phrases.flatMap((phrase) => {
        const at = lower.indexOf(phrase.toLowerCase())
        return at === -1 ? [] : [{ end: at + phrase.length, length: phrase.length }]
      })
      const first = ends.sort((a, b) => a.end - b.end || b.length - a.length)[0]
      const expected = first === undefined ? undefined : text.slice(first.end - first.length, first.end)
      if (search(text) !== expected) wrong.push(`${phrases} in ${text}: ${search(text)}, not ${expected}`)
    }
  }
  t.same(wrong, [])
})

t.test('every phrase of a large list is found, in little memory', async (t) => {
  const phrases = Array.from({ length: 20_000 }, (_, i) => `phrase-${(i * 7919) % 1_000_003}.end`)
  const before = process.memoryUsage().arrayBuffers
  const search = compilePhrases(phrases)
  const used = process.memoryUsage().arrayBuffers - before
  t.equal(phrases.filter((phrase) => search(`<${phrase.toUpperCase()}>`)?.length !== phrase.length).length, 0)
  t.ok(used < 20e6, `${used} bytes`)
})

/** Folder of a rule set, if there is one. */
const folder = path.join(process.env.SLUICE_CRS ?? '../shared/crs', 'rules')

t.test('phrase files of a rule set are found by themselves', { skip: !existsSync(folder) }, async (t) => {
  const missed: string[] = []
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.data'))) {
    const phrases = parsePhraseFile(readFileSync(path.join(folder, file), 'latin1'))
    const search = compilePhrases(phrases)
    for (const phrase of phrases) if (search(phrase) === undefined) missed.push(`${file}: ${phrase}`)
  }
  t.same(missed, [])
})
