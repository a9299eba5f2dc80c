import Type from 'typebox'
import { EvaluationError } from '../../expression/expression.js'
import type { FlowRequest } from '../../flow/flow.js'
import { type PathProblem, RequestTarget } from '../../flow/target.js'
import { defineAction } from '../action.js'
import { config, regex, template } from '../fields.js'
import { compileReplacing, REPLACEMENT, WHOLE_URL } from './url-replacing.js'
import { asUrl } from './url-text.js'

/**
 * Rewrites the URL of the request before it goes to the upstream; the client does not notice. Every match is replaced.
 *
 * The result is brought into normal form again, and one that has none fails the exchange. Where the request goes is
 * decided by its route alone, and `Host` stays as it came: another host in the result shows in `req.url` and nowhere
 * else, so nothing that a client sends can lead a request to another upstream.
 */
export const urlRewrite = defineAction({
  type: 'url-rewrite',
  phases: ['on_http_request'],
  config: config(
    {
      from: Type.Optional(
        regex({ description: 'RE2 pattern, searched in the full URL; the whole URL when left out.' })
      ),
      to: template({
        description: 'What takes the place of each match; $1 stands for a group. Or a path, without from.',
        editor: { allOf: [REPLACEMENT, { pattern: '^(?:\\$\\{[^}]*\\}|[^#])*$' }] }
      })
    },
    WHOLE_URL
  ),
  configOptional: false,
  terminates: 'never',
  results: {
    name: 'url_rewrite',
    fields: { matches: 'list<string>', url: 'string', 'error.code': 'string', 'error.message': 'string' }
  },
  compile({ from, to }, scope) {
    const replacing = compileReplacing(from, to, 'all', scope)
    if (to.replace(/\$\{[^}]*\}/g, '').includes('#')) {
      scope.problem(['to'], 'CONFIG_INVALID', 'to holds a "#": a request has no fragment; write %23 for the character')
    }
    if (from === undefined && to.trim() === '') {
      scope.problem(['to'], 'CONFIG_INVALID', 'to is empty: a request needs a URL or a path')
    }
    return (flow) => {
      const { request } = flow
      if (request === undefined) return undefined
      const { text, matches } = replacing(request.target, flow)
      if (text !== request.target.url) request.target = targetOf(text, request)
      flow.publish('url_rewrite', { matches, url: request.target.url, 'error.code': '', 'error.message': '' })
      return undefined
    }
  }
})

const LENIENT = 'only an edge or listener with path_form lenient lets it pass'
const HOLDS: Readonly<Record<PathProblem, string>> = {
  'not-a-path': 'is no path',
  'encoded-slash': `holds an encoded slash: ${LENIENT}`,
  backslash: `holds a backslash: ${LENIENT}`,
  'encoded-control': `holds an encoded control character: ${LENIENT}`,
  'dot-parameters': `holds a dot segment with parameters: ${LENIENT}`
}

/** `text` as a target; a path alone keeps scheme and authority. */
function targetOf(text: string, { target: before, pathForm }: FlowRequest): RequestTarget {
  const url = asUrl(text)
  const target = RequestTarget.fromUrl(url.startsWith('/') ? `${before.scheme}://${before.authority}${url}` : url)
  if (target === undefined) throw new EvaluationError('failed', 'the rewritten URL is no http or https URL')
  const formed = target.in(pathForm)
  if (typeof formed === 'string') throw new EvaluationError('failed', `the path of the rewritten URL ${HOLDS[formed]}`)
  return formed
}
