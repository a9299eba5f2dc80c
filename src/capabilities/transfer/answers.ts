import { integer, listOf, mapOf, object, text, time, titledObject } from '../../schema/answer.js'

const RECORD = object(
  {
    id: text,
    created_at: time,
    fields: mapOf(),
    made: mapOf(undefined, 'What the service has made or found out.'),
    withheld: listOf(text, 'Write-only values that the record had and the document has not.')
  },
  ['created_at', 'made', 'withheld']
)

/** The account as a document. */
export const ACCOUNT_DOCUMENT = titledObject('AccountDocument', {
  format: text,
  version: { ...text, description: 'Of the program that wrote it.' },
  users: listOf(object({ id: text, created_at: time, role: text })),
  records: mapOf(listOf(RECORD), 'By kind, of a kind oldest first. Fields stand as a request of the API has them.'),
  end: {
    ...object({ users: integer, records: integer, digest: text }),
    description:
      'The end mark, by which an import finds that a document is cut: numbers of users and records, and a digest of both.'
  }
})
