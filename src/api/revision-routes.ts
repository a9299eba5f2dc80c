import { REVISION, REVISION_DIFF, REVISION_LIST, REVISION_REVERTED } from '../control/revision-answers.js'
import { diffLines } from '../control/revision-text.js'
import { integer } from '../schema/answer.js'
import { type Account, prefers, sendDryRun } from './calls.js'
import { defineRoute, type RouteGroup } from './define-route.js'
import { withWarnings } from './openapi-parts.js'
import { PAGE, type Parameter, readRevision, revisionIn } from './parameters.js'

interface RevisionService {
  readonly account: Pick<Account, 'revisions' | 'reverts'>
}

const FROM: Parameter<number | undefined> = {
  description: 'The revision to compare with, older or newer; 0: the empty account. The one before unless given.',
  schema: { ...integer, minimum: 0 },
  read: (query, name) => (query.get(name) === '0' ? 0 : readRevision(query, name))
}

const TEXT_TYPE = 'text/plain; charset=utf-8'

const listRevisions = defineRoute({
  method: 'GET',
  path: '/revisions',
  id: 'revisions_list',
  summary: 'Lists, newest first, what the history keeps.',
  query: { limit: PAGE.limit, before_id: { ...PAGE.before_id, read: readRevision } },
  answers: 'One page.',
  answer: REVISION_LIST,
  run: ({ query: { limit, before_id: before } }, { account }: RevisionService) =>
    account.revisions.list({ limit, before })
})

const readOne = defineRoute({
  method: 'GET',
  path: '/revisions/{id}',
  id: 'revisions_get',
  summary: 'Reads one revision; 404 when the history does not keep it.',
  answers: 'The revision.',
  answer: REVISION,
  run: ({ params: { id } }, { account }: RevisionService) => account.revisions.get(revisionIn(id))
})

const diffRevisions = defineRoute({
  method: 'GET',
  path: '/revisions/{id}/diff',
  id: 'revisions_diff',
  summary:
    'What the revision changed, or how it differs from another one, record by record. With Accept: text/plain as lines for people. ' +
    '404 when the history does not keep one of the revisions between both.',
  query: { from: FROM },
  answers: 'The changes.',
  answer: REVISION_DIFF,
  also: 'text/plain',
  run: ({ params: { id }, query: { from }, call }, { account }: RevisionService) =>
    account.revisions.diff(revisionIn(id), call.principal, from),
  send(reply, diff, _asked, request) {
    reply.header('vary', 'accept')
    if (!prefers('text/plain', request.headers.accept)) return reply.send(diff)
    const lines = diffLines(diff).map(({ text }) => `${text}\n`)
    return reply.type(TEXT_TYPE).send(lines.join(''))
  }
})

const revertRevision = defineRoute({
  method: 'POST',
  path: '/revisions/{id}/revert',
  id: 'revisions_revert',
  summary:
    'Undoes what the revision changed, in one write: records come back with their ids. Refused (409) when a later write ' +
    'stands in the way, or when the history lacks what is needed, such as secrets. The caller needs the rights of each change.',
  write: true,
  body: 'command',
  answers: 'What was changed back.',
  answer: withWarnings(REVISION_REVERTED),
  run: ({ params: { id }, mode, call }, { account }: RevisionService) =>
    account.reverts.revert(revisionIn(id), mode, call),
  send(reply, reverted, { mode }) {
    const { body, committed, warnings = [] } = reverted
    if (mode.dryRun === true) return sendDryRun(reply, reverted, 200, body)
    const shown = warnings.length > 0 ? { ...body, warnings } : body
    return reply.header('service-revision', String(committed)).send(shown)
  }
})

/** Routes of the history of the account. */
export const revisionRoutes: RouteGroup<RevisionService> = {
  tag: 'Revisions',
  description: 'The history of the account: one revision for each write that was accepted.',
  routes: [listRevisions, readOne, diffRevisions, revertRevision]
}
