import { pageAsPolicy, refusalOfStatuses } from '../../../policy/error-page.js'
import type { NodePath } from '../../../policy/problems.js'
import type { TreeNode } from '../../../policy/tree.js'
import { fieldErrors } from '../../../schema/errors.js'
import type { Declaration } from './declaration.js'
import { PAGE } from './fields.js'
import { problemsOn } from './site-input.js'

/** The field as the API has it. */
interface ErrorPages {
  readonly pages: Readonly<Record<string, string>>
}

/** Reads `error_pages` of a site or route: by status a file, or `{ body }`. Undefined after a report. */
export async function errorPagesOf(
  declaration: Declaration,
  node: TreeNode,
  path: NodePath
): Promise<ErrorPages | undefined> {
  const pages: Record<string, string> = {}
  let isRight = true
  for (const { key, keySpan, value } of declaration.entries(node, path, 'error_pages')) {
    const within = [...path, key]
    const refusal = refusalOfStatuses(key)
    if (refusal !== undefined)
      declaration.error({ path: within, span: keySpan }, fieldErrors.FIELD_INVALID, `error_pages: ${refusal}`)
    const source = await sourceOf(declaration, value, within)
    const problems =
      source === undefined
        ? []
        : await declaration.slices.run(
            problemsOn({ layer: 'http', isStrict: false }, pageAsPolicy(source), declaration.input)
          )
    const errors = problems.filter(({ severity }) => severity === 'error')
    for (const { message } of errors)
      declaration.error({ path: within, span: value.span }, fieldErrors.FIELD_INVALID, `error_pages: ${message}`)
    if (source === undefined || refusal !== undefined || errors.length > 0) isRight = false
    else pages[key] = source
  }
  return isRight ? { pages } : undefined
}

async function sourceOf(declaration: Declaration, node: TreeNode, path: NodePath): Promise<string | undefined> {
  if (node.kind === 'map') {
    const body = declaration.fields(node, path, PAGE).get('body')
    return body === undefined ? undefined : declaration.text(body.value, [...path, 'body'], 'body')
  }
  return await declaration.fileAt(node, path, 'the page')
}
