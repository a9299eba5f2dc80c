import t from 'tap'
import { joined, LINES, LIST } from '../../../src/capabilities/events/destinations/payload.js'

t.test('texts stand in their frame, in UTF-8', async (t) => {
  const texts = ['{"a":"ä"}', '[]', '"😀"']
  t.equal(joined(texts, LINES).toString(), `${texts.join('\n')}\n`)
  t.equal(joined(texts, LIST).toString(), `[${texts.join(',')}]`)
  t.equal(joined(['1'], LIST).toString(), '[1]')
  t.equal(joined([], LIST).toString(), '[]')
  t.equal(joined(texts, { before: '\n', between: '\n', after: '\n' }).length, Buffer.byteLength(texts.join('\n')) + 2)
})
