import type { Transaction } from './transaction.js'

/** A text with macros `%{…}`, ready to be expanded. */
export type Macro = (transaction: Transaction) => string

const MACRO = /%\{([^{}]+)\}/g

/** Returns whether a text has macros. */
export function hasMacros(text: string): boolean {
  return text.includes('%{')
}

/**
 * Compiles a text with macros: `%{tx.name}`, `%{MATCHED_VAR}`, `%{REQUEST_HEADERS.Host}`, in any case. A macro without a value expands to
 * nothing. `fixed` are values of TX that are known when the rules are compiled.
 */
export function compileMacros(text: string, rule: { readonly id: number; readonly severity: string }): Macro {
  if (!hasMacros(text)) return () => text
  const parts: (string | Macro)[] = []
  let from = 0
  for (const { 0: written, 1: name = '', index } of text.matchAll(MACRO)) {
    if (index > from) parts.push(text.slice(from, index))
    parts.push(compileMacro(name, rule))
    from = index + written.length
  }
  if (from < text.length) parts.push(text.slice(from))
  const [only] = parts
  if (parts.length === 1 && typeof only === 'function') return only
  return (transaction) => {
    let expanded = ''
    for (const part of parts) expanded += typeof part === 'string' ? part : part(transaction)
    return expanded
  }
}

function compileMacro(written: string, rule: { readonly id: number; readonly severity: string }): Macro {
  const dot = written.indexOf('.')
  const collection = (dot < 0 ? written : written.slice(0, dot)).toUpperCase()
  const key = dot < 0 ? undefined : written.slice(dot + 1).toLowerCase()
  if (collection === 'RULE') return () => (key === 'id' ? String(rule.id) : key === 'severity' ? rule.severity : '')
  if (collection === 'TX' && key !== undefined) return (transaction) => transaction.getTx(key) ?? ''
  if (collection === 'MATCHED_VAR') return (transaction) => transaction.matched?.value ?? ''
  if (collection === 'MATCHED_VAR_NAME') return (transaction) => transaction.matched?.name ?? ''
  return (transaction) => {
    for (const target of transaction.collection(collection))
      if (key === undefined || target.key === key) return target.value
    return ''
  }
}
