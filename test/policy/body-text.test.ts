import t from 'tap'
import { readText } from '../../src/policy/body-text.js'
import { leastHold, turnsOf } from '../helpers/loop-hold.js'

t.test('content of any length is read by its charset', async (t) => {
  const text = 'aé€ '.repeat(30_000)
  const cases = [
    [undefined, Buffer.from(text)],
    ['text/plain; charset=utf-8', Buffer.from(text)],
    ['text/plain; charset=utf-16le', Buffer.from(text, 'utf16le')],
    ['text/plain; charset=windows-1252', Buffer.from(text.replaceAll('€', '\x80'), 'latin1')]
  ] as const
  for (const [type, bytes] of cases) t.ok((await readText(bytes, type)).text === text, `${type}`)
  const japanese = Buffer.from([0x93, 0xfa, 0x96, 0x7b])
  const long = await readText(Buffer.concat(Array(20_001).fill(japanese)), 'text/plain; charset=shift_jis')
  t.ok(long.text === '日本'.repeat(20_001), 'a character across the end of a stretch')
  const odd = Buffer.concat([Buffer.from('x'), ...Array(20_001).fill(japanese)])
  t.ok((await readText(odd, 'text/plain; charset=shift_jis')).text === `x${'日本'.repeat(20_001)}`)
  for (const charset of ['utf-8', 'shift_jis', 'no-such']) {
    const wrong = Buffer.concat([Buffer.alloc(70_000, 'a'), Buffer.from([0xff, 0xfe])])
    const { text, bytes } = await readText(wrong, `text/plain; charset=${charset}`)
    t.ok(text === `${'a'.repeat(70_000)}\xff\xfe`, `${charset}: one character for one byte`)
    t.same(bytes(text), wrong)
  }
})

t.test('long content is read in slices', async (t) => {
  const bytes = Buffer.from('é'.repeat(2 * 1024 * 1024))
  for (const charset of ['utf-8', 'windows-1252', 'big5']) {
    const { turns, longest, took } = await leastHold(() => readText(bytes, `text/plain; charset=${charset}`))
    t.ok(turns >= turnsOf({ took }), `${charset}: ${turns} turns in ${took.toFixed(1)} ms`)
    t.ok(longest < 40, `${charset}: the loop was held for ${longest.toFixed(1)} ms`)
  }
})
