import t from 'tap'
import { type Located, readAccountText } from '../../../src/capabilities/transfer/command-account.js'
import { opened } from '../../store/opened.js'
import { SITE } from './transfer-stand.js'
import { imported, refused } from './transfers.js'

t.test('what is wrong with a document is told with its line and column', async (t) => {
  const { store } = await opened(t, ':memory:')
  const wrong = async (text: string): Promise<readonly Located[]> => {
    const read = readAccountText(text)
    if (!read.ok) return read.problems
    return (await refused(imported(store, read.data))).map(read.locate)
  }
  const cases: [string, string, Partial<Located>][] = [
    ['a policy', SITE.replace('custom-response', 'x'), { line: 15, column: 27, code: 'POLICY_ACTION_UNKNOWN' }],
    ['a field', SITE.replace('match: /', 'match: x'), { line: 10, column: 16, code: 'FIELD_INVALID' }],
    [
      'a reference',
      SITE.replace('edge_id: edghts_1', 'edge_id: edghts_2'),
      { line: 9, column: 18, code: 'REF_NOT_FOUND' }
    ],
    ['a key twice', `${SITE}format: 2\n`, { line: 17, column: 1, code: 'DUPLICATE_KEY' }],
    ['nothing', '', { line: 1, column: 1, code: 'DOCUMENT_EMPTY' }],
    ['another form', 'format: 7\n', { line: 1, column: 9, code: 'FORMAT_UNKNOWN' }],
    ['a list', '- 1\n', { line: 1, column: 1, code: 'FIELD_INVALID' }]
  ]
  for (const [name, text, expected] of cases) t.match(await wrong(text), [expected], name)
  t.equal(await store.revision(), 0)
})
