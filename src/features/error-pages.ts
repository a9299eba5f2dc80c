import { EvaluationError, type Expressions, type Template } from '../expression/expression.js'
import { mediaTypeOf } from '../flow/content-coding.js'
import type { Flow, FlowResponse } from '../flow/flow.js'
import { escapeHtml } from '../lib/printable.js'
import { pageAsPolicy, refusalOfStatuses } from '../policy/error-page.js'
import { defineField } from '../schema/field.js'
import { map } from '../schema/fields.js'
import { text } from '../schema/values.js'
import { defineFeature, defineModule } from './contract.js'

/** Maximum number of pages of a route. */
const MAX_PAGES = 20

/** Maximum source size of a page (bytes). */
const MAX_SOURCE = 65_536

/** Maximum size of a rendered page (bytes). */
const MAX_PAGE = 1_048_576

/** Compiled page. */
interface Page {
  readonly type: string
  readonly template: Template
}

const described = map<string>({
  description:
    'Bodies by status (404) or class of statuses (5xx); a status wins over its class. ${…} is an expression of on_http_response; in HTML its value is escaped.',
  keys: 'name',
  values: text({
    description: 'Body of the answer; HTML, JSON, XML or text by its content.',
    min: 1,
    bytes: MAX_SOURCE
  }),
  max: MAX_PAGES
})

const pages = defineField<Readonly<Record<string, string>>>({
  ...described,
  read(written, at, path, reading) {
    const found = described.read(written, at, path, reading)
    if (found === undefined) return undefined
    let isRight = true
    for (const [statuses, source] of Object.entries(found)) {
      const refusal = refusalOfStatuses(statuses)
      const problems = reading.checkPolicy(pageAsPolicy(source), 'http') ?? []
      if (refusal !== undefined) reading.report({ field: at, code: 'FIELD_INVALID', message: refusal })
      for (const problem of problems) reading.report({ ...problem, field: at })
      if (refusal !== undefined || problems.length > 0) isRight = false
    }
    return isRight ? found : undefined
  }
})

/**
 * Adds bodies to error responses of a route, whether caused by a module, a policy, an unreachable upstream or a missing file; status, code and
 * other header fields are unchanged. Responses that already have a body from an upstream or policy are unchanged.
 */
const routeModule = defineModule({
  name: 'error_pages',
  description: 'Gives errors that Sluice answers itself a body of your own.',
  on: ['https'],
  fields: { pages },
  compile({ pages }, { services }) {
    const compiled = new Map(
      Object.entries(pages).map(([statuses, source]) => [statuses, compilePage(source, services.expressions)])
    )
    return {
      response(flow) {
        const { response } = flow
        if (response === undefined || !mayReplace(response)) return undefined
        const page = compiled.get(String(response.status)) ?? compiled.get(`${Math.floor(response.status / 100)}xx`)
        const body = page === undefined ? undefined : render(page, flow)
        if (page === undefined || body === undefined) return undefined
        response.body = body
        response.headers.delete('content-length')
        response.headers.delete('content-encoding')
        response.headers.set('content-type', page.type)
        return undefined
      }
    }
  }
})

/** Returns true for errors without a body of their own, and for errors of a folder of files. */
function mayReplace({ local, folderError, body, headers }: FlowResponse): boolean {
  return folderError === true || (local && body === undefined && headers.has('sluice-error-code'))
}

/** Compiles a page. Throws for unchecked expressions. */
function compilePage(source: string, expressions: Expressions): Page {
  const compiled = expressions.template(source, 'on_http_response')
  if (!compiled.ok) throw new TypeError('an error page has expressions that do not compile')
  return { type: mediaTypeOf(source), template: compiled.value }
}

/** Renders a page; undefined if an expression has no value or the page is too large: then the default body is used. */
function render({ type, template }: Page, flow: Flow): Uint8Array | undefined {
  try {
    const isHtml = type.startsWith('text/html')
    const body = Buffer.from(isHtml ? template.text(flow, escapeHtml) : template.text(flow), 'utf8')
    return body.length > MAX_PAGE ? undefined : body
  } catch (error) {
    if (error instanceof EvaluationError) return undefined
    throw error
  }
}

export const errorPages = defineFeature({
  name: 'error-pages',
  summary: 'Gives errors of a route pages of your own.',
  modules: [routeModule]
})
