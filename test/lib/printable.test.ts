import t from 'tap'
import { printable, printableJson, printableLines, terminalText } from '../../src/lib/printable.js'

const EVERY = Array.from({ length: 0x2100 }, (_, code) => String.fromCharCode(code)).join('')
const OBEYED = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u

t.test('a terminal obeys no character of a text that is shown', (t) => {
  t.notMatch(printable(EVERY), OBEYED)
  t.equal(printable(EVERY).length, EVERY.length, 'each keeps its width')
  t.equal(printable('é 漢 🦊\tok'), 'é 漢 🦊 ok')
  t.equal(printableLines('a\u001b[2J\nb'), 'a\ufffd[2J\nb')
  t.end()
})

t.test('what a command writes to a terminal may be coloured, and nothing else', (t) => {
  t.notMatch(terminalText(EVERY).replace(/[\t\n]/g, ''), OBEYED)
  t.equal(terminalText('\u001b[31mred\u001b[0m\n'), '\u001b[31mred\u001b[0m\n')
  t.equal(terminalText('\r\u001b[2K3 seen'), '\r\u001b[2K3 seen')
  for (const sequence of ['\u001b[8m', '\u001b[2J', '\u009b2J', '\u001b]0;t\u0007', '\u001b[31;8m', 'x\r\u001b[2K'])
    t.notMatch(terminalText(sequence), OBEYED, JSON.stringify(sequence))
  t.end()
})

t.test('JSON on a terminal says the same', (t) => {
  const text = JSON.stringify({ [EVERY]: EVERY })
  for (const shown of [printableJson(text), terminalText(text)]) t.strictSame(JSON.parse(shown), { [EVERY]: EVERY })
  t.notMatch(printableJson(text), /[\u007f-\u009f\u2028\u2029]/)
  t.equal(printableJson('{"a":1}'), '{"a":1}')
  t.end()
})
