// Makes the mutants of a TypeScript file. All of them stand in one text, and `__mutant(id)` says which of them is alive:
//
//   if (size > 0) return;   →   if ((__mutant(7) ? (true) : __mutant(8) ? (size >= 0) : (size > 0))) return;
import ts from 'typescript';

const { SyntaxKind: K } = ts;
/** What stands for an operator in its mutants; '' and 'right' leave one of the two sides. */
const OPERATORS = {
  '<': ['<=', '>='], '<=': ['<', '>'], '>': ['>=', '<='], '>=': ['>', '<'], '===': ['!=='], '!==': ['==='], '==': ['!='], '!=': ['=='],
  '+': ['-'], '-': ['+'], '*': ['/'], '/': ['*'], '%': ['*'], '&&': ['left', 'right'], '||': ['left', 'right'], '??': ['left', 'right'], '+=': ['-='], '-=': ['+='],
};
/** Methods that are called by another name, or not at all. */
const METHODS = { min: 'max', max: 'min', some: 'every', every: 'some', filter: undefined, sort: undefined, reverse: undefined, slice: undefined };

const isText = (node) => ts.isStringLiteralLike(node) || ts.isTemplateExpression(node) || (ts.isBinaryExpression(node) && (isText(node.left) || isText(node.right)));
const isCall = (node) => ts.isCallExpression(node) && node.expression.kind !== K.SuperKeyword;
const isInnerLink = (node) => ts.isOptionalChain(node) && !ts.isOutermostOptionalChain(node);
const isCondition = (node) => {
  const { parent } = node;
  return (ts.isIfStatement(parent) && parent.expression === node) || (ts.isConditionalExpression(parent) && parent.condition === node);
};
/** Statements that do something and declare nothing, so that they can be left out. */
const isAct = (node) => ts.isExpressionStatement(node) && !(ts.isCallExpression(node.expression) && node.expression.expression.kind === K.SuperKeyword);

function ofNumber(node, text) {
  if (ts.isPropertyAssignment(node.parent) && node.parent.name === node) return [];
  return { 0: ['1'], 1: ['0', '2'] }[text] ?? ['0', `${text} * 1000`];
}

function ofBinary(node, text) {
  const operator = node.operatorToken.getText();
  if (operator === '+' && isText(node)) return [];
  const [left, right] = [node.left.getText(), node.right.getText()];
  return (OPERATORS[operator] ?? []).map((other) => (other === 'left' ? left : other === 'right' ? right : `${left} ${other} ${right}`));
}

function ofMethod(node) {
  const method = ts.isPropertyAccessExpression(node.expression) ? node.expression.name.text : '';
  if (!Object.hasOwn(METHODS, method)) return [];
  const on = node.expression.expression.getText();
  return [METHODS[method] === undefined ? on : `${on}.${METHODS[method]}(${node.arguments.map((each) => each.getText()).join(', ')})`];
}

/** What may stand in place of an expression. */
function insteadOf(node) {
  const text = node.getText();
  const found = isCondition(node) ? ['true', 'false'] : [];
  if (ts.isNumericLiteral(node)) found.push(...ofNumber(node, text));
  if (node.kind === K.TrueKeyword) found.push('false');
  if (node.kind === K.FalseKeyword) found.push('true');
  if (ts.isBinaryExpression(node)) found.push(...ofBinary(node, text));
  if (ts.isPrefixUnaryExpression(node) && [K.ExclamationToken, K.MinusToken].includes(node.operator)) found.push(node.operand.getText());
  if ((ts.isPrefixUnaryExpression(node) || ts.isPostfixUnaryExpression(node)) && /\+\+|--/.test(text)) found.push(text.replace(/\+\+|--/, (sign) => (sign === '++' ? '--' : '++')));
  if (ts.isAwaitExpression(node)) found.push(node.expression.getText());
  if (isCall(node)) found.push(...ofMethod(node));
  if (isCall(node) && (ts.isReturnStatement(node.parent) || ts.isArrowFunction(node.parent))) found.push('undefined');
  if (ts.isOptionalChain(node) && text.includes('?.')) found.push(text.replaceAll('?.(', '(').replaceAll('?.[', '[').replaceAll('?.', '.'));
  return isInnerLink(node) ? [] : [...new Set(found)];
}

const isPassedOver = (node) => ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isImportDeclaration(node) || ts.isExportDeclaration(node) || ts.isLiteralTypeNode(node);

/** The text with all its mutants in it, and what each of them is; the ids begin with `firstId`. */
export function mutantsOf(file, text, firstId) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const mutants = [];
  const add = (node, to) => {
    const { line } = source.getLineAndCharacterOfPosition(node.getStart());
    const lineText = text.split('\n')[line].trim();
    const from = node.getText().replaceAll(/\s+/g, ' ');
    mutants.push({ id: firstId + mutants.length, file, line: line + 1, lineText, from, to: to.replaceAll(/\s+/g, ' ') });
    return mutants.at(-1).id;
  };
  const render = (node) => {
    if (isPassedOver(node)) return node.getText();
    const written = withChildren(node);
    if (isAct(node)) return `if (__mutant(${add(node, '')})); else ${written}`;
    if (!ts.isExpression(node)) return written;
    const others = insteadOf(node);
    return others.length === 0 ? written : `(${others.map((to) => `__mutant(${add(node, to)}) ? (${to}) : `).join('')}(${written}))`;
  };
  const withChildren = (node) => {
    let [written, at] = ['', node.getStart()];
    ts.forEachChild(node, (child) => {
      written += text.slice(at, child.getStart()) + render(child);
      at = child.end;
    });
    return written + text.slice(at, node.end);
  };
  return { text: `${withChildren(source)}`, mutants };
}
