"""What the zoo achieves: accuracy of the undefended and the greedily controlled classifiers."""

from zoo import attacks, training


def greedy_control(classifier, input_embedding, hidden_embedding=None):
    """The classifier under greedy control u_t = E_t(x_t) - x_t at the input and at the pooled features."""
    def controlled(images):
        features = classifier.features(input_embedding(images))
        if hidden_embedding is not None:
            features = hidden_embedding(features)
        return classifier.head(features)
    return controlled


def evaluate(classifier, input_embedding, hidden_embedding, images, labels, seed, steps=100, restarts=1):
    """Accuracy per attack: undefended, with input control, with input and hidden control.

    The adversarial images are crafted against the undefended classifier (the paper's oblivious setting).
    """
    variants = {
        "undefended": classifier,
        "input_control": greedy_control(classifier, input_embedding),
        "input_and_hidden_control": greedy_control(classifier, input_embedding, hidden_embedding),
    }
    attacked = {"none": images}
    for norm in attacks.EPSILONS:
        attacked[norm] = attacks.oblivious_attack(classifier, images, labels, norm, steps, seed, restarts)
    return {name: {attack: round(training.accuracy(variant, found, labels), 4) for attack, found in attacked.items()}
            for name, variant in variants.items()}
