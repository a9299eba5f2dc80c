import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import ts from 'typescript'

/** Reads the surface from the text of the source, wherever in `src` it stands: what no running product shows as a whole. */

/** Every node of every file of the source; what is below a node is left out when `visit` answers false. */
export async function everyNode(visit: (node: ts.Node, file: string) => unknown): Promise<void> {
  const files = (await readdir('src', { recursive: true })).filter((name) => name.endsWith('.ts')).sort()
  for (const name of files) {
    const text = await readFile(join('src', name), 'utf8')
    const walk = (node: ts.Node): void => {
      if (visit(node, name) !== false) ts.forEachChild(node, walk)
    }
    walk(ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true))
  }
}

export function textOf(node: ts.Node | undefined): string | undefined {
  return node !== undefined && ts.isStringLiteralLike(node) ? node.text : undefined
}

/** What stands under a name in an object that is written out. */
export function member(object: ts.ObjectLiteralExpression, name: string): ts.Expression | undefined {
  const found = object.properties.find((property) => property.name !== undefined && nameOf(property.name) === name)
  return found !== undefined && ts.isPropertyAssignment(found) ? found.initializer : undefined
}

/** Names of the members of an object that is written out, sorted; `…` for what another object adds. */
export function memberNames(object: ts.ObjectLiteralExpression): string[] {
  return object.properties.flatMap(namesIn).sort()
}

function namesIn(property: ts.ObjectLiteralElementLike): string[] {
  if (property.name !== undefined) return [nameOf(property.name)]
  if (!ts.isSpreadAssignment(property)) return []
  const objects: string[] = []
  const walk = (node: ts.Node): void => {
    if (ts.isObjectLiteralExpression(node)) objects.push(...memberNames(node))
    else ts.forEachChild(node, walk)
  }
  walk(property.expression)
  return objects.length > 0 ? objects : ['…']
}

function nameOf(name: ts.PropertyName): string {
  return ts.isIdentifier(name) || ts.isStringLiteralLike(name) ? name.text : name.getText()
}

/** What is called or made, as it is written: `refuse`, `this.#log.warn`, `ApiError`. */
export function called(node: ts.Node): { readonly name: string; readonly args: readonly ts.Expression[] } | undefined {
  if (!ts.isCallExpression(node) && !ts.isNewExpression(node)) return undefined
  return { name: node.expression.getText(), args: [...(node.arguments ?? [])] }
}

export const isObject = ts.isObjectLiteralExpression

/** The object that `defineErrors` is called with, when the node is such a call. */
export function tableOf(node: ts.Node): ts.ObjectLiteralExpression | undefined {
  if (!ts.isCallExpression(node) || node.expression.getText() !== 'defineErrors') return undefined
  const [table] = node.arguments
  return table !== undefined && ts.isObjectLiteralExpression(table) ? table : undefined
}

/** `b` of `a.b`. */
export function accessedName(node: ts.Node): string | undefined {
  return ts.isPropertyAccessExpression(node) ? node.name.text : undefined
}
