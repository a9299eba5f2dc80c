import Type from 'typebox'
import { EvaluationError } from '../../expression/expression.js'
import type { EventStreamMessage } from '../../flow/event-stream.js'
import type { Flow } from '../../flow/flow.js'
import { defineAction, type Scope } from '../action.js'
import { textLike } from '../editor.js'
import { config, template } from '../fields.js'
import type { NodePath } from '../problem.js'
import { compileReplacement, type Found, replacements, replaceWithin } from './replacements.js'

type Field = keyof EventStreamMessage

/** Replaces text in each message of an event stream, which goes on streaming. A message is handled for itself. */
export const sseFindReplace = defineAction({
  type: 'sse-find-replace',
  phases: ['on_event_stream_message'],
  config: config({
    replacements: replacements({
      field: Type.Optional(
        template({
          description: 'Field of the message: data (when left out) or retry.',
          editor: textLike('\\$\\{', '^(?:data|retry)$')
        })
      )
    })
  }),
  configOptional: false,
  terminates: 'never',
  results: { name: 'sse_find_replace', fields: { replacements: 'list<dyn>' } },
  compile({ replacements: list }, scope) {
    const entries = list.map((entry, i) => {
      const at = ['replacements', i]
      return { ...compileReplacement(entry, at, scope), field: compileField(fieldOf(entry), [...at, 'field'], scope) }
    })
    const { bodies } = scope.services
    return (flow) => {
      const { message } = flow
      if (message === undefined) return undefined
      const found: Found[] = []
      for (const [index, { from, to, field }] of entries.entries()) {
        const name = field(flow)
        const text = message[name]
        const regex = from(flow)
        const match = text === undefined ? undefined : regex.exec(text)
        if (text === undefined || match === undefined) continue
        found.push({ replacement_index: index, matched_content: match.groups[0] ?? '' })
        message[name] = written(name, replaceWithin(regex, text, to(flow), bodies.each))
      }
      flow.publish('sse_find_replace', { replacements: found })
      return undefined
    }
  }
})

/** What the schema of this action adds to an entry. */
function fieldOf(entry: object): string {
  return 'field' in entry ? String(entry.field) : 'data'
}

function compileField(source: string, at: NodePath, scope: Scope): (flow: Flow) => Field {
  const template = scope.template(source, at)
  if (template.constant === undefined) {
    return (flow) => {
      const text = template.text(flow)
      if (isField(text)) return text
      throw new EvaluationError('failed', 'field is neither data nor retry after interpolation')
    }
  }
  const name = template.constant
  if (!isField(name)) {
    scope.problem(at, 'CONFIG_INVALID', `"${name}" is not a field that can be replaced: data and retry are`)
  }
  return () => (isField(name) ? name : 'data')
}

function isField(name: string): name is Field {
  return name === 'data' || name === 'retry'
}

/** What came out of a replacement, where it can stand in a message: a line end in `retry` would begin another field. */
function written(field: Field, text: string | undefined): string {
  if (text === undefined) throw new EvaluationError('failed', 'the message would become too long')
  if (field === 'retry' && /[\r\n]/.test(text)) {
    throw new EvaluationError('failed', 'retry would hold a line end')
  }
  return text
}
