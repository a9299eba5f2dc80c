import Type from 'typebox'
import { EvaluationError } from '../../expression/expression.js'
import { respond } from '../../flow/verdict.js'
import { defineAction } from '../action.js'
import { config, headerMap, regex, template } from '../fields.js'
import { NEVER_WRITTEN } from './header-rules.js'
import { compileHeaders, headerList } from './header-writing.js'
import { compileReplacing, REPLACEMENT, WHOLE_URL } from './url-replacing.js'
import { asUrl } from './url-text.js'

const STATUSES = [301, 302, 303, 307, 308]
const RESERVED = { location: '"location" is what to says; it cannot be given as a header' }

/** Sends the client to another URL: the request's, with the first match replaced. An unchanged URL goes on. */
export const redirect = defineAction({
  type: 'redirect',
  phases: ['on_http_request'],
  config: config(
    {
      from: Type.Optional(
        regex({ description: 'RE2 pattern, searched in the full URL; the whole URL when left out.' })
      ),
      to: template({
        description: 'What takes the place of the match; $1 stands for a group. Or a URL or path, without from.',
        editor: REPLACEMENT
      }),
      status_code: Type.Optional(Type.Enum(STATUSES, { description: 'Status of the redirect.', default: 302 })),
      headers: Type.Optional(
        headerMap({ description: 'Further fields of the answer.', refused: [...NEVER_WRITTEN, 'location'], max: 10 })
      )
    },
    WHOLE_URL
  ),
  configOptional: false,
  terminates: 'sometimes',
  denies: true,
  results: {
    name: 'redirect',
    fields: { matches: 'list<string>', url: 'string', 'error.code': 'string', 'error.message': 'string' }
  },
  compile({ from, to, status_code: status = 302, headers = {} }, scope) {
    const replacing = compileReplacing(from, to, 'first', scope)
    const writing = compileHeaders(headers, ['headers'], scope, RESERVED)
    if (from === undefined && to.trim() === '') {
      scope.problem(['to'], 'CONFIG_INVALID', 'to is empty: a redirect needs a URL or a path to lead to')
    }
    const otherHost = from === undefined && to.startsWith('//')
    return (flow) => {
      const target = flow.request?.target
      if (target === undefined) return undefined
      const { text, matches } = replacing(target, flow)
      if (text.trim() === '') throw new EvaluationError('failed', 'the URL to redirect to is empty')
      const location = locationOf(text, otherHost)
      const changed = matches.length > 0 && location !== target.url && location !== target.uri
      flow.publish('redirect', { matches, url: changed ? location : target.url, 'error.code': '', 'error.message': '' })
      return changed ? respond(Number(status), ['location', location, ...headerList(writing, flow)]) : undefined
    }
  }
})

/**
 * The value of `Location`. A path that begins with two slashes names another host; unless the policy itself says so it is
 * a path of the request's, and the client keeps to this host.
 */
function locationOf(text: string, otherHost: boolean): string {
  const location = asUrl(text)
  return otherHost ? location : location.replace(/^\/{2,}/, '/')
}
